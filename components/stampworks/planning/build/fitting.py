"""Check whether the declared model fits on the declared nodes, and which layout would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from stampworks import catalog
from stampworks.physics import memory
from stampworks.physics.bounds import figure
from stampworks.physics.memory import GIB, Layout
from stampworks.physics.transformer import Transformer
from stampworks.plan import Plan
from stampworks.planning.build.model import transformer
from stampworks.planning.build.placement import Alternatives, Placement, alternatives, laid_out, places


@dataclass(frozen=True)
class Fit:
    """The answer to whether the model fits, in words for rules."""

    verdict: Literal["pass", "fail", "unknown"]
    text: str
    hint: str
    severity: Literal["error", "warning"] = "error"


def fits(plan: Plan) -> Iterator[Fit]:
    """Check whether the declared model fits on each pool of the default queue; yield nothing when no model is
    declared."""
    if plan.training.model.parameters is None:
        return
    model = transformer(plan.training.model)
    for place in places(plan.training, plan.groups, plan.scheduler):
        yield _fit(model, place)


def _fit(model: Transformer, place: Placement) -> Fit:
    """Judge a run with the declared settings. A layout that fits if the run asks for it causes a warning, not an
    error."""
    needed = memory.need(model, place.layout, place.samples)
    total = (
        f"{laid_out(place)}, a rank needs {figure(needed.least_bytes / GIB)} GiB{'' if needed.whole else ' or more'}"
    )
    row = catalog.accelerators().get(place.machine.accelerator)
    if place.machine.simulated or row is None:
        what = "is simulated, and its accelerators have no memory" if row else "has no accelerator"
        return Fit("unknown", f"{total}; {place.machine.name} {what}", "")
    if isinstance(row.memory_gib, catalog.Unknown):
        return Fit("unknown", f"{total}; the catalog does not know the memory of {row.name}", "look it up")
    usable = f"{1 - memory.HEADROOM_SHARE:.0%} of {row.memory_gib} GiB of {row.name}"
    verdict = memory.fits(needed, row.memory_gib)
    if verdict:
        return Fit("pass", f"{total}, and it may have {usable}", "")
    if verdict is None:
        hint = "write layers, hidden, heads, vocabulary and sequence of the model"
        return Fit("unknown", f"{total} plus unknown parts, and it may have {usable}: {needed.why}", hint)
    text, found = f"{total}, and it may have {usable}: {needed.why}", alternatives(model, place, row.memory_gib)
    wrong = found.bundled.layout != place.layout if found.bundled else _hopeless(model, place, row.memory_gib)
    return Fit("fail", text, _suggestion(place, found), "error" if wrong else "warning")


def idle(plan: Plan) -> Iterator[Fit]:
    """Yield the pools where a step has fewer samples than there are copies of the model."""
    if plan.training.model.parameters is None:
        return
    for place in places(plan.training, plan.groups, plan.scheduler):
        copies, ranks, batch = place.layout.copies, place.layout.ranks, place.batch
        if batch >= copies:
            continue
        waiting, samples = (copies - batch) * (ranks // copies), "1 sample" if batch == 1 else f"{batch} samples"
        text = (
            f"a step has {samples} for {copies} copies of the model on {place.pool}: {waiting} of {ranks} ranks "
            f"({waiting / ranks:.1%}) have none, and wait"
        )
        hint = f"write training.batch: {copies} or more, or leave it out, or split the model among more ranks"
        yield Fit("fail", text, hint, "warning")


def _hopeless(model: Transformer, place: Placement, memory_gib: int) -> bool:
    """Whether a layout never fits, even with one sample at once and recomputed activations."""
    least = (memory.need(model, place.layout, 1, recomputed=again) for again in (False, True))
    return all(memory.fits(needed, memory_gib) is False for needed in least)


def _suggestion(place: Placement, others: Alternatives) -> str:
    """Suggest the declared layout if it fits with one sample at once, and otherwise the plainest that fits."""
    if found := others.bundled:
        how = [f"write {_written(found.layout)}"] if found.layout != place.layout else []
        if replace(place, layout=found.layout).samples > 1:
            how.append("submit runs with `--set micro=1`, so that they work on one sample at once")
        return f"{'; '.join(how)}: {figure(found.least_bytes / GIB)} GiB a rank"
    if other := others.plainest:
        split = "; its tp leaves sequences whole" if other.layout.tensor > 1 else ""
        again = " without computing activations again, which it does not" if others.again else ""
        return (
            f"{other.said}, the plainest that fits, needs {figure(other.least_bytes / GIB)} GiB a rank and another "
            f"framework: no layout of the bundled training fits{again}{split}"
        )
    return "no layout is known to fit on these nodes: take more of them, or accelerators with more memory"


def _written(layout: Layout) -> str:
    """Return the lines of a declaration that ask for a layout."""
    return f"layout: tp and tensor_parallel: {layout.tensor}" if layout.tensor > 1 else f"layout: {layout.name}"
