"""The speed of training a model: a step is compute, and communication that compute does not hide.

A step is no faster than the best published matmul of its accelerator, and than its links with everything hidden that
can be. When nothing is broken, it is no slower than the slowest published run of that accelerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Literal

from stampworks import catalog
from stampworks.physics.bounds import Bound, UnknownFactError, figure, known
from stampworks.physics.collectives import Operation, bus_factor
from stampworks.physics.machines import collective_on_machines
from stampworks.physics.memory import NARROW, Layout
from stampworks.physics.transformer import Transformer, flops_per_token, known_shape, widths
from stampworks.text.amounts import many

Precision = Literal["float32", "bfloat16", "float8"]
"""The precision of most arithmetic; with float8, data between the products stays bfloat16."""
REDUCED = 4
"""Bytes of a gradient in transit: gradients are added up in float32."""


def peak_tflops(machine: catalog.Machine, precision: Precision = "bfloat16") -> Bound:
    """Return the dense peak of one accelerator, according to its maker."""
    row = _accelerator(machine)
    if precision == "float32":
        raise UnknownFactError(f"the catalog has no float32 peak of {row.name}")
    short = "fp8" if precision == "float8" else "bf16"
    peak = known(row.fp8_dense_tflops if short == "fp8" else row.bf16_dense_tflops, f"the {short} peak of {row.name}")
    if not peak:
        raise UnknownFactError(f"{row.name} has no {short}")
    return Bound(peak, f"{figure(peak)} TFLOP/s dense {short} of {row.name}, as its maker says")


def best_tflops(machine: catalog.Machine, precision: Precision) -> tuple[float, str]:
    """Return an upper limit for any product, and its origin: the best published value, or else the maker's."""
    peak, row = peak_tflops(machine, precision), _accelerator(machine)
    if precision == "float8":
        return peak.value, "of its maker's fp8"
    return known(row.bf16_measured_tflops, f"rate of a matmul on {row.name}"), "of the best published matmul"


def published(
    machine: catalog.Machine, precision: Precision = "bfloat16", experts: bool = False
) -> list[catalog.PublishedRun]:
    """Return the published runs of this accelerator, with or without experts, the slowest first."""
    row = _accelerator(machine)
    found = (
        each
        for each in catalog.runs().values()
        if each.accelerator == row.name and each.precision == precision and _has_experts(trained(each)) == experts
    )
    return sorted(found, key=run_tflops)


def _has_experts(model: Transformer) -> bool:
    return model.used < model.parameters


def run_tflops(run: catalog.PublishedRun) -> float:
    """Return the rate of one accelerator: as published, or by our count of FLOPs from the published tokens per
    second."""
    if not isinstance(run.tflops, catalog.Unknown):
        return run.tflops
    tokens = known(run.tokens_per_second, f"how fast {run.name} was")
    return tokens * flops_per_token(trained(run)).value / 1e12


def trained(run: catalog.PublishedRun) -> Transformer:
    """Return the model of a published run."""
    model = catalog.trained_models()[run.model]
    return Transformer(
        parameters=model.parameters,
        active=model.active,
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        head=model.head,
        value_head=model.value_head,
        vocabulary=model.vocabulary,
        sequence=run.sequence,
    )


def mfu_range(
    machine: catalog.Machine, model: Transformer, precision: Precision = "bfloat16"
) -> tuple[Bound, Bound, Bound]:
    """Return the minimum, the median and the maximum share of the peak in published runs on this accelerator.

    The runs have the same precision. Models with experts are compared only with each other, because they reach less.
    """
    experts = _has_experts(model)
    runs, peak = published(machine, precision, experts), peak_tflops(machine, precision).value
    of = f"in {precision}, of {'models with experts' if experts else 'dense models'}, on {machine.accelerator}"
    if not runs:
        raise UnknownFactError(f"the catalog knows no published run {of}")
    shares = [run_tflops(run) / peak for run in runs]
    middle = f"the median of {len(runs)} published runs {of}" if len(runs) > 1 else f"the only published run {of}"
    return (
        Bound(shares[0], _run_text(runs[0], peak)),
        Bound(median(shares), middle),
        Bound(shares[-1], _run_text(runs[-1], peak)),
    )


def _run_text(run: catalog.PublishedRun, peak: float) -> str:
    return (
        f"{run.name}: {figure(run_tflops(run))} of {figure(peak)} TFLOP/s on {run.accelerators} {run.accelerator} "
        f"({run.source})"
    )


@dataclass(frozen=True)
class Traffic:
    """Bytes that a step moves with one kind of collective, and the ranks that take part."""

    operation: Operation
    size_bytes: float
    """Size of the whole buffer of one rank."""
    ranks: int
    neighbours: int
    """Ranks of the collective on one node: all of its ranks, or those that share its NICs with similar groups."""
    times: int
    what: str


def traffic(model: Transformer, layout: Layout, samples: int, node_ranks: int) -> list[Traffic]:
    """Return the traffic between ranks of a step with `samples` samples a rank, except barriers and norms."""
    found: list[Traffic] = []
    part = model.parameters / (layout.tensor * layout.pipeline)
    beside = max(1, node_ranks // layout.tensor)
    """Ranks of a node that hold the same part of a layer."""
    if layout.tensor > 1 or layout.pipeline > 1 or layout.context > 1:
        hidden, sequence, layers = known_shape(model, "hidden", "sequence", "layers")
        size = float(NARROW * samples * ceil(sequence / layout.context) * hidden)
    if layout.tensor > 1:
        times = 4 * ceil(layers / layout.pipeline)
        neighbours = min(layout.tensor, node_ranks)
        found.append(Traffic("all_reduce", size, layout.tensor, neighbours, times, "split layers"))
    if layout.context > 1:
        wide = widths(model)
        both = NARROW * samples * sequence * (wide.keys + wide.values) / layout.tensor
        times, neighbours = ceil(layers / layout.pipeline), min(layout.context, beside)
        found.append(Traffic("all_gather", both, layout.context, neighbours, 2 * times, "keys and values, twice"))
        found.append(Traffic("reduce_scatter", both, layout.context, neighbours, times, "their gradients"))
    if layout.pipeline > 1:
        found.append(Traffic("send_recv", size, 2, 1, 2, "from stage to stage"))
    if layout.zero == 3 and layout.sharded > 1:
        neighbours = min(layout.sharded, beside)
        found.append(Traffic("all_gather", NARROW * part, layout.sharded, neighbours, 2, "weights, gathered twice"))
        found.append(Traffic("reduce_scatter", REDUCED * part, layout.sharded, neighbours, 1, "gradients"))
        if layout.copies > layout.sharded:
            rest = layout.copies // layout.sharded
            found.append(Traffic("all_reduce", REDUCED * part / layout.sharded, rest, 1, 1, "gradients of copies"))
    elif layout.copies > 1:
        found.append(Traffic("all_reduce", REDUCED * part, layout.copies, min(layout.copies, beside), 1, "gradients"))
    return found


def communication_seconds(moved: Sequence[Traffic], machine: catalog.Machine, nodes: int) -> Bound:
    """Return the minimum time of all traffic, one after the other. Raises UnknownFactError when the catalog lacks a
    fact."""
    total, words = 0.0, []
    for each in moved:
        within = each.ranks <= each.neighbours
        whole = collective_on_machines(each.operation, 1 if within else nodes, max(1, int(each.size_bytes)), machine)
        # groups with only some of a node's accelerators share its NICs with each other
        busbw = whole.ceiling.value * (1 if within else each.neighbours / machine.accelerators)
        seconds = each.times * bus_factor(each.operation, each.ranks) * each.size_bytes / 1e9 / busbw
        total += seconds
        words.append(
            f"{each.times} x {each.operation.replace('_', '-')} of {figure(each.size_bytes / 1e9)} GB at "
            f"{figure(busbw)} GB/s ({each.what}) {figure(seconds)} s"
        )
    return Bound(total, " + ".join(words) or "a single rank sends nothing")


def compute_seconds(model: Transformer, tokens: float, ranks: int, tflops: float, of: str) -> Bound:
    """Return the time of the arithmetic for the tokens of one copy, on the accelerators that hold it."""
    flops = flops_per_token(model)
    value = flops.value * tokens / ranks / tflops / 1e12
    return Bound(
        value,
        f"{many(tokens)} tokens of a copy x {figure(flops.value / 1e9)} GFLOP ({flops.why}) / ({ranks} x "
        f"{figure(tflops)} TFLOP/s {of})",
    )


@dataclass(frozen=True)
class TrainingStep:
    """A training step; `slowest` is None when the catalog lacks facts."""

    fastest: Bound
    slowest: Bound | None


def step(
    model: Transformer,
    layout: Layout,
    samples: int,
    machine: catalog.Machine,
    nodes: int,
    precision: Precision = "bfloat16",
) -> TrainingStep:
    """Return the fastest and the slowest step; `samples` are those of the copy that has most. Raises UnknownFactError
    when the facts are missing."""
    [sequence] = known_shape(model, "sequence")
    tokens, split = float(samples * sequence), layout.ranks // layout.copies
    best, of = best_tflops(machine, precision)
    compute = compute_seconds(model, tokens, split, best, of)
    moved = communication_seconds(traffic(model, layout, samples, layout.ranks // nodes), machine, nodes)
    fastest = max(compute.value, moved.value) * (1 + bubble(layout, samples))
    idle = f"; x {figure(1 + bubble(layout, samples))} of stages that wait" if layout.pipeline > 1 else ""
    hidden = "hides behind it" if moved.value <= compute.value else "is longer, and hides it"
    floor = Bound(fastest, f"{compute.why}: {figure(compute.value)} s; {moved.why}, which {hidden}{idle}")
    try:
        least = mfu_range(machine, model, precision)[0]
    except UnknownFactError:
        return TrainingStep(floor, None)
    slowest = least.value * peak_tflops(machine, precision).value
    slow = compute_seconds(model, tokens, split, slowest, "of the slowest run")
    exposed = slow.value + moved.value
    return TrainingStep(
        floor,
        Bound(
            max(exposed, fastest),
            f"{slow.why} ({least.why}): {figure(slow.value)} s; and nothing hidden of {moved.why}",
        ),
    )


def bubble(layout: Layout, batches: int) -> float:
    """Return the additional share of time of a pipeline, whose stages wait at both ends: (stages - 1) / batches."""
    return (layout.pipeline - 1) / batches


def _accelerator(machine: catalog.Machine) -> catalog.Accelerator:
    if machine.simulated:
        raise UnknownFactError(f"{machine.name} is simulated and has no speed of its own")
    if not machine.accelerator:
        raise UnknownFactError(f"{machine.name} has no accelerator")
    return catalog.accelerators()[machine.accelerator]
