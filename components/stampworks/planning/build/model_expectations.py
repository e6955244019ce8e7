"""Expectations of training the declared model: memory, time, checkpoints and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stampworks import catalog
from stampworks.physics import checkpoints, failures, memory, training
from stampworks.physics.bounds import Bound, UnknownFactError, figure, rounded
from stampworks.physics.memory import GIB
from stampworks.physics.transformer import Transformer, flops_per_token
from stampworks.plan import Expectation, Group, Scheduler, Training
from stampworks.planning.build.model import transformer
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.placement import Placement, as_it_fits, laid_out, places
from stampworks.planning.build.storage import Mounted
from stampworks.text.amounts import many

DAY_S = 86_400
IN_ANY_LAYOUT = ("failure_hours_", "checkpoint_")
"""Expectations that do not depend on the layout of the model."""


def expect(
    told: Training, groups: Sequence[Group], scheduler: Scheduler, storage: Mounted | None, notes: Notes
) -> tuple[Expectation, ...]:
    """Expect the costs of training the declared model; a missing fact becomes a reason.

    `storage` is that of the checkpoints; None when none is declared.
    """
    if told.model.parameters is None:
        return ()
    model = transformer(told.model)
    flops, size = flops_per_token(model), checkpoints.checkpoint_bytes(model.parameters)
    found = [
        _expectation("training.token_gflop", Bound(flops.value / 1e9, flops.why), "GFLOP"),
        _expectation("training.checkpoint_gb", Bound(size.value / 1e9, size.why), "GB"),
    ]
    for place in places(told, groups, scheduler):
        found += _pool_expectations(model, told.model.tokens, size, place, storage, notes)
    return tuple(found)


def _pool_expectations(
    model: Transformer, tokens: int | None, size: Bound, place: Placement, storage: Mounted | None, notes: Notes
) -> Iterator[Expectation]:
    head = f"training.{place.pool}"
    needed = memory.need(model, place.layout, place.samples)
    what = "memory" if needed.whole else "memory_min"
    yield _expectation(f"{head}.{what}_gib", Bound(needed.least_bytes / GIB, f"{laid_out(place)}: {needed.why}"), "GiB")
    if place.machine.simulated or not place.machine.accelerator:
        why = "is simulated and has no speed of its own" if place.machine.simulated else "has no accelerator"
        notes.reason(head, f"duration and failures are unknown: {place.machine.name} {why}")
        return
    fitting, mark = as_it_fits(model, place)
    if fitting is None:
        notes.reason(head, "duration is unknown: no layout of it is known to fit on these nodes")
        return
    if mark:
        notes.reason(head, f"speed and goodput are those of a run {mark}, for the declared layout does not fit")
    for each in (*_speed(model, tokens, head, fitting, notes), *_survival(size, head, fitting, storage, notes)):
        alike = each.name.removeprefix(f"{head}.").startswith(IN_ANY_LAYOUT)
        yield each if alike or not mark else replace(each, why=f"{mark}: {each.why}")


def _speed(model: Transformer, tokens: int | None, head: str, place: Placement, notes: Notes) -> Iterator[Expectation]:
    try:
        step = training.step(model, place.layout, place.samples, place.machine, place.nodes, place.precision)
    except UnknownFactError as error:
        notes.reason(head, f"duration of a step is unknown: {error}")
        return
    per_step = place.batch * (model.sequence or 0)
    ends = [("min", "max", step.fastest)] + ([("max", "min", step.slowest)] if step.slowest else [])
    if not step.slowest:
        on = f"{place.machine.accelerator} in {place.precision}"
        notes.reason(head, f"upper limit of a step is unknown: no run of such a model on {on} is published")
    peak = training.peak_tflops(place.machine, place.precision).value * 1e12 * place.layout.ranks
    for slow, fast, bound in ends:
        seconds, flops = bound.value, flops_per_token(model).value * per_step
        each = f"of steps of {figure(seconds)} s"
        yield _expectation(f"{head}.step_seconds_{slow}", bound, "s")
        share = f"{figure(flops)} FLOPs a step / {figure(peak)} FLOP/s of all peaks, {each}"
        yield _expectation(f"{head}.mfu_{fast}", Bound(flops / seconds / peak, share), "of the peak")
        rate = Bound(per_step / seconds, f"{many(per_step)} tokens, {each}")
        yield _expectation(f"{head}.tokens_per_second_{fast}", rate, "tokens/s")
        if tokens:
            days = Bound(
                tokens / rate.value / DAY_S, f"{many(tokens)} tokens at {figure(rate.value)} tokens/s, no failure"
            )
            yield _expectation(f"{head}.days_{slow}", days, "days")


def _survival(size: Bound, head: str, place: Placement, storage: Mounted | None, notes: Notes) -> Iterator[Expectation]:
    """Expect the failure rate, the cost of a checkpoint, and the share of time that is left for work."""
    accelerators = place.nodes * place.machine.accelerators  # an accelerator without a rank takes its node down, too
    least, most = failures.mtbf_range_hours(accelerators, catalog.deployments().values())
    yield _expectation(f"{head}.failure_hours_min", least, "h")
    yield _expectation(f"{head}.failure_hours_max", most, "h")
    what = "duration and interval of checkpoints, and goodput, are unknown"
    if storage is None:
        notes.reason(head, f"{what}: checkpoints are on no declared storage")
        return
    try:
        nodes = [(place.machine, place.nodes)]
        writes, reads = storage.writes(nodes), storage.reads(nodes)
    except UnknownFactError as error:
        notes.reason(head, f"{what}: {error}")
        return
    write = checkpoints.write_seconds(size.value, writes)
    read = checkpoints.read_seconds(size.value, max(1, place.layout.copies // place.layout.sharded), reads)
    yield _expectation(f"{head}.checkpoint_seconds_min", write, "s")
    yield _expectation(f"{head}.restart_read_seconds_min", read, "s")
    yield _expectation(
        f"{head}.checkpoint_every_seconds_min", failures.interval_s(write.value, least.value * 3600), "s"
    )
    good = failures.goodput(write.value, read.value, most.value * 3600)
    words = f"{good.why}; nothing but reading counted as recovering, and the rarest failures that were published"
    yield _expectation(f"{head}.goodput_max", Bound(good.value, words), "of the time")


def _expectation(name: str, bound: Bound, unit: str) -> Expectation:
    return Expectation(name, rounded(bound.value), unit, bound.why)
