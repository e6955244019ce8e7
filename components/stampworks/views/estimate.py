"""An estimate of a training run, as `stampworks estimate` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stampworks.physics.bounds import Bound, figure
from stampworks.physics.estimates import Estimate, Question
from stampworks.physics.memory import GIB, Need, fits
from stampworks.text.amounts import many
from stampworks.text.printable import printable
from stampworks.views.table import paragraph, table

WIDTH = 100
FITS = {True: "yes", False: "no", None: "unknown"}
TERA, GIGA = 1e12, 1e9


def estimate_data(answer: Estimate) -> dict[str, Any]:
    """Return the estimate as plain data. Unknown values are null."""
    return {
        "gpu_days": answer.gpu_days,
        "wall_days": answer.wall_days,
        "wall_days_max": answer.wall_days_max,
        "usd": answer.usd,
        "checkpoint_bytes": answer.checkpoint_bytes,
        "assumptions": list(answer.assumptions),
        "flops": answer.flops,
        "tflops_per_gpu": answer.tflops_per_gpu,
        "gpu_days_range": answer.gpu_days_range and list(answer.gpu_days_range),
        "checkpoint_bytes_each": answer.checkpoint_bytes_each,
        "mtbf_hours_range": answer.mtbf_hours_range and list(answer.mtbf_hours_range),
        "layouts": [_layout(each, answer.memory_gib) for each in answer.layouts],
        "layout_bundled": answer.bundled and _layout(answer.bundled, answer.memory_gib),
        "layout_suggested": answer.suggested and _layout(answer.suggested, answer.memory_gib),
    }


def _layout(need: Need, memory_gib: float | None) -> dict[str, Any]:
    return {
        "layout": need.layout.name,
        "recomputed": need.recomputed,
        "bytes_min": int(need.least_bytes),
        "fits": None if memory_gib is None else fits(need, memory_gib),
        "why": need.why,
    }


def estimate_text(asked: Question, answer: Estimate, width: int = WIDTH) -> str:
    """Return a headline, the numbers, the memory of each layout and the assumptions. The text ends with a newline."""
    sections = [
        paragraph(_headline(asked), width, ""),
        table(("", ""), _numbers(asked, answer), width)[1:],
        _memory(answer, width),
        ["Assumptions", *(line for each in answer.assumptions for line in paragraph(each, width))],
    ]
    return "\n\n".join("\n".join(map(printable, lines)) for lines in sections if lines) + "\n"


def _headline(asked: Question) -> str:
    tokens = f" on {many(asked.tokens)} tokens" if asked.tokens else ""
    gpus = f", {asked.gpus} x" if asked.gpus else ", on"
    machine = asked.machine
    if machine is None:
        where = f"{gpus} accelerators" if asked.gpus else ""
    else:
        kind = machine.accelerator or "no accelerator"
        where = f"{gpus} {kind} of {machine.name}" + (" (simulated)" if machine.simulated else "")
    active = f" ({many(asked.model.used)} active)" if asked.model.used < asked.model.parameters else ""
    precision = "" if asked.precision == "bfloat16" else f", in {asked.precision}"
    return f"{many(asked.model.parameters)} parameters{active}{tokens}{where}{precision}"


def _numbers(asked: Question, answer: Estimate) -> Iterator[tuple[str, str]]:
    spread, mtbf = answer.gpu_days_range, answer.mtbf_hours_range
    yield "FLOPs", f"{answer.flops:.3g}" if answer.flops else "unknown"
    yield "rate", f"{figure(answer.tflops_per_gpu)} TFLOP/s of one accelerator" if answer.tflops_per_gpu else "unknown"
    yield (
        "accelerator-days",
        _days(answer.gpu_days) + (f" ({_days(spread[0])} to {_days(spread[1])})" if spread else ""),
    )
    yield "days", _days(answer.wall_days) + (f" to {_days(answer.wall_days_max)}" if answer.wall_days_max else "")
    yield "usd", "unknown" if answer.usd is None else f"{answer.usd:,.0f}"
    kept = f", {asked.checkpoints} of them {_bytes(answer.checkpoint_bytes)}" if asked.checkpoints > 1 else ""
    yield "checkpoint", _bytes(answer.checkpoint_bytes_each) + kept
    if mtbf:
        yield "a failure every", f"{figure(mtbf[0])} to {figure(mtbf[1])} h, by what was published of others"


def _days(days: float | None) -> str:
    return "unknown" if days is None else f"{days:,.0f}" if days >= 100 else figure(days)


def _bytes(size: float) -> str:
    return f"{figure(size / TERA)} TB" if size >= TERA else f"{figure(size / GIGA)} GB"


def _memory(answer: Estimate, width: int) -> list[str]:
    """Return a table of layouts up to the first that may fit. Later ones only have more traffic between ranks."""
    if answer.memory_gib is None or not answer.layouts:
        return []
    shown = _until_one_fits(answer.layouts, answer.memory_gib)
    rows = [
        (
            each.layout.name,
            *map(_gib, (each.states, each.gathered, each.activations)),
            FITS[fits(each, answer.memory_gib)],
        )
        for each in shown
    ]
    title = f"Memory of one of {figure(answer.memory_gib)} GiB, with one sample at once"
    return [
        title,
        *table(("layout", "states", "at work", "activations", "fits"), rows, width),
        *_suggestion(answer, width),
    ]


def _until_one_fits(layouts: tuple[Need, ...], memory_gib: float) -> list[Need]:
    found: list[Need] = []
    for each in layouts:
        found.append(each)
        if fits(each, memory_gib) is not False:
            break
    return found


def _suggestion(answer: Estimate, width: int) -> list[str]:
    if answer.suggested is None:
        unsure = any(fits(each, answer.memory_gib or 0) is None for each in answer.layouts)
        unknown = "suggested: none, for what activations take is not known without the model's shape"
        return paragraph(unknown if unsure else "no layout fits, also with activations computed again", width)
    text = f"suggested: {answer.suggested.said}, the plainest that fits"
    if answer.bundled is None:
        text += "; it takes another framework, for no layout of the bundled training fits"
    elif answer.bundled != answer.suggested:
        text += f"; of those that the bundled training has, {answer.bundled.said}"
    return paragraph(text, width)


def _gib(bound: Bound | None) -> str:
    return f"{figure(float(f'{bound.value / GIB:.3g}'))} GiB" if bound else "unknown"
