"""What is to be trained: its shape, what it takes on the declared nodes, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from stampworks import catalog, declaration
from stampworks.physics import checkpoints, failures, memory, training
from stampworks.physics.bounds import Bound, UnknownFactError, figure, rounded
from stampworks.physics.layouts import fitting
from stampworks.physics.memory import GIB, Layout, Need
from stampworks.physics.training import Precision
from stampworks.physics.transformer import Transformer, counted, flops_per_token, usual_ffn
from stampworks.plan import Expectation, Group, Model, Plan, Scheduler, Training
from stampworks.plan import Precision as Declared
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.storage import Mounted
from stampworks.text.amounts import many

PATH = "training.model"
NAMED_SHARE = 0.1
"""Names of models are rounded: a 7B has 6.74B parameters."""
DAY_S = 86_400
TOGETHER = (
    ("experts", "experts_per_token"),
    ("experts_per_token", "experts"),
    ("kv_rank", "head"),
    ("query_rank", "kv_rank"),
    ("rotary", "kv_rank"),
    ("dense_layers", "dense_ffn"),
    ("dense_ffn", "dense_layers"),
    ("dense_layers", "experts"),
)
"""Fields of which the first says nothing without the second."""

IN_ANY_LAYOUT = ("failure_hours_", "checkpoint_")
"""Expectations that are the same however a model lies on ranks."""


@dataclass(frozen=True)
class Fit:
    verdict: Literal["pass", "fail", "unknown"]
    text: str
    hint: str
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class Place:
    """A pool that runs may be on, and how the model lies on it."""

    pool: str
    machine: catalog.Machine
    nodes: int
    node_ranks: int
    layout: Layout
    batch: int
    """Samples of a step, of all copies together."""
    precision: Precision

    @property
    def samples(self) -> int:
        """Of the copy that has most of them; the others wait for it."""
        return ceil(self.batch / self.layout.copies)

    @property
    def working(self) -> float:
        """Of all copies' time: those with fewer samples than the one that has most wait for it."""
        return self.batch / (self.samples * self.layout.copies)


def build(declared: declaration.Training, batch: int, notes: Notes) -> Model:
    """The declared model with what follows from it; a problem where two facts contradict each other.

    `batch`: samples of a step.
    """
    told = declared.model
    kv_heads, ffn = told.kv_heads or told.heads, told.ffn
    if told.heads and not told.kv_heads:
        notes.reason(f"{PATH}.kv_heads", "without kv_heads each head of attention has its own keys and values")
    if told.hidden and not told.ffn:
        ffn = usual_ffn(told.hidden, told.gated)
        how = f"8/3 of {told.hidden}, up to a multiple of 32" if told.gated else f"4 x {told.hidden}"
        notes.reason(f"{PATH}.ffn", f"{how}: as wide as is usual {'with' if told.gated else 'without'} a gate")
    written = Model(
        parameters=told.parameters or None,
        tokens=told.tokens or None,
        layers=told.layers or None,
        hidden=told.hidden or None,
        heads=told.heads or None,
        kv_heads=kv_heads or None,
        head=told.head or None,
        value_head=told.value_head or None,
        kv_rank=told.kv_rank or None,
        query_rank=told.query_rank or None,
        rotary=told.rotary or None,
        ffn=ffn or None,
        vocabulary=told.vocabulary or None,
        sequence=told.sequence or None,
        gated=told.gated,
        tied=told.tied,
        experts=told.experts or None,
        experts_per_token=told.experts_per_token or None,
        dense_layers=told.dense_layers or None,
        dense_ffn=told.dense_ffn or None,
        active=told.active or None,
    )
    if told == type(told)():
        return written
    _check_heads(declared, notes)
    _check_together(told, notes)
    _check_parts(told, notes)
    whole = replace(written, parameters=_parameters(written, notes), tokens=_tokens(declared, batch, notes))
    return replace(whole, active=_active(whole, notes))


def _check_heads(declared: declaration.Training, notes: Notes) -> None:
    told = declared.model
    for name, whole, parts in (
        ("heads", told.hidden, told.heads),
        ("kv_heads", told.heads, told.kv_heads),
    ):
        if whole and parts and whole % parts and not (name == "heads" and told.head):
            of = "hidden" if name == "heads" else "heads"
            what = f"{of} {whole} does not divide by {name} {parts}: {_left(whole, parts)}"
            notes.problem(f"{PATH}.{name}", what, f"write {name} that divide {whole}, or another {of}")
    if told.heads and told.heads % declared.tensor_parallel:
        degree = declared.tensor_parallel
        what = f"the model's {told.heads} heads do not divide by it: {_left(told.heads, degree)}"
        notes.problem("training.tensor_parallel", what, f"write a tensor_parallel that divides {told.heads}")


def _check_together(told: declaration.Model, notes: Notes) -> None:
    """Of what says something only beside another field, the first that lacks it."""
    for said, lacks in TOGETHER:
        if getattr(told, said) and not getattr(told, lacks):
            hint = f"write {lacks}, too, or take {said} out"
            notes.problem(f"{PATH}.{lacks}", f"{said} is written without {lacks}", hint)
            return


def _check_parts(told: declaration.Model, notes: Notes) -> None:
    """What is a part of something else is not more than that."""
    for part, whole in (("experts_per_token", "experts"), ("rotary", "head"), ("dense_layers", "layers")):
        most = getattr(told, whole)
        if most and getattr(told, part) > most:
            what = f"{part} {getattr(told, part)} is a part of {whole}, which is {most}"
            notes.problem(f"{PATH}.{part}", what, f"write {most} or less, or more {whole}")
    if told.kv_rank and told.heads and told.kv_heads not in (0, told.heads):
        what = f"in latent attention each of {told.heads} heads has keys and values of its own, not {told.kv_heads}"
        notes.problem(f"{PATH}.kv_heads", what, "take it out, or take kv_rank out")


def _left(whole: int, parts: int) -> str:
    """A division that leaves something, however little it is of the whole."""
    return f"{whole} = {parts} x {whole // parts} + {whole % parts}"


def _parameters(model: Model, notes: Notes) -> int | None:
    """As written, or counted; what is written must agree with what can be counted."""
    found, written = counted(transformer(model)), model.parameters
    if not found:
        if not written:
            lacks = [name for name in ("layers", "hidden", "heads", "vocabulary") if not getattr(model, name)]
            what = f"neither parameters nor all of a shape are written: {', '.join(lacks)} lack"
            notes.problem(PATH, what, "write parameters, as in 8B, or the rest of the shape")
        return written
    if not written:
        notes.reason(f"{PATH}.parameters", found.why)
        return int(found.value)
    if abs(found.value - written) > NAMED_SHARE * written:
        what = f"{many(written)} parameters are written, and the shape has {many(found.value)}: {found.why}"
        hint = "leave parameters out, or correct the shape; ffn, kv_heads, experts, gated and tied count, too"
        notes.problem(f"{PATH}.parameters", what, hint)
    return written


def _active(model: Model, notes: Notes) -> int | None:
    """As written, or counted: what a token passes through, of a model with experts."""
    if model.parameters is None or bool(model.experts) != bool(model.experts_per_token):
        return None
    if not model.experts:
        if model.active and model.active > model.parameters:
            what = f"{many(model.active)} of {many(model.parameters)} parameters are active"
            notes.problem(f"{PATH}.active", what, "parameters are all of them, those of every expert")
        return model.active
    shape = transformer(model)
    found = counted(shape, shape.experts_per_token)
    if not found:
        if not model.active:
            what = "how many parameters a token passes through is not written, and cannot be counted"
            notes.problem(f"{PATH}.active", what, "write active, as in 37B, or the rest of the shape")
        return model.active
    if not model.active:
        notes.reason(f"{PATH}.active", found.why)
        return int(found.value)
    if abs(found.value - model.active) > NAMED_SHARE * model.active:
        what = f"{many(model.active)} active parameters are written, and the shape has {many(found.value)}: {found.why}"
        notes.problem(f"{PATH}.active", what, "leave active out, or correct the shape")
    return model.active


def _tokens(declared: declaration.Training, batch: int, notes: Notes) -> int | None:
    told = declared.model
    if told.tokens or not told.sequence:
        return told.tokens or None
    notes.reason(f"{PATH}.tokens", f"{declared.steps} steps x {batch} samples x {told.sequence} tokens, as of any run")
    return declared.steps * batch * told.sequence


def transformer(model: Model) -> Transformer:
    return Transformer(
        parameters=model.parameters or 0,
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head=model.head,
        value_head=model.value_head,
        kv_rank=model.kv_rank,
        query_rank=model.query_rank,
        rotary=model.rotary,
        ffn=model.ffn,
        vocabulary=model.vocabulary,
        sequence=model.sequence,
        gated=model.gated,
        tied=model.tied,
        experts=model.experts or 1,
        experts_per_token=model.experts_per_token or 1,
        dense_layers=model.dense_layers,
        dense_ffn=model.dense_ffn,
        active=model.active,
    )


def precision(told: Declared) -> Precision:
    """What a run computes in that asks for nothing else, where there are accelerators."""
    return "bfloat16" if told == "auto" else told


def places(told: Training, groups: Sequence[Group], scheduler: Scheduler) -> list[Place]:
    """Where a run may be that asks for nothing else: on all nodes of a pool of the default queue.

    Of pools without accelerators only where no other has any: nobody declares a model for these.
    """
    default = next((queue.pools for queue in scheduler.queues if queue.default), ())
    ranks, computes = dict(told.ranks), precision(told.precision)
    found = []
    for group in groups:
        if group.name not in default or group.name not in ranks:
            continue
        nodes = fitting(told.layout, told.tensor_parallel, group.count, ranks[group.name])
        if not nodes:
            continue
        layout = _layout(told, nodes * ranks[group.name], ranks[group.name])
        machine = catalog.machines()[group.machine.name]
        found.append(Place(group.name, machine, nodes, ranks[group.name], layout, told.batch, computes))
    return [place for place in found if place.machine.accelerators] or found


def _layout(told: Training, ranks: int, node_ranks: int) -> Layout:
    if told.layout == "ddp":
        return memory.ddp(ranks)
    if told.layout == "hsdp":
        return memory.hsdp(ranks, node_ranks)
    if told.layout == "tp":
        split = memory.tp(ranks, told.tensor_parallel)
        return memory.whole(split) if told.tensor_parallel > 1 else split
    return memory.zero(ranks, 3)


def expect(
    told: Training, groups: Sequence[Group], scheduler: Scheduler, storage: Mounted | None, notes: Notes
) -> tuple[Expectation, ...]:
    """What training the declared model takes; what cannot be told is a reason, with what is not known.

    The storage is that of the checkpoints; None where none is declared.
    """
    if told.model.parameters is None:
        return ()
    model = transformer(told.model)
    flops, size = flops_per_token(model), checkpoints.checkpoint_bytes(model.parameters)
    found = [
        _of("training.token_gflop", Bound(flops.value / 1e9, flops.why), "GFLOP"),
        _of("training.checkpoint_gb", Bound(size.value / 1e9, size.why), "GB"),
    ]
    for place in places(told, groups, scheduler):
        found += _on_pool(model, told.model.tokens, size, place, storage, notes)
    return tuple(found)


def _on_pool(
    model: Transformer, tokens: int | None, size: Bound, place: Place, storage: Mounted | None, notes: Notes
) -> Iterator[Expectation]:
    head = f"training.{place.pool}"
    needed = memory.need(model, place.layout, place.samples)
    what = "memory" if needed.whole else "memory_min"
    yield _of(f"{head}.{what}_gib", Bound(needed.least_bytes / GIB, f"{_laid(place)}: {needed.why}"), "GiB")
    if place.machine.simulated or not place.machine.accelerator:
        why = "is simulated, which says nothing about speed" if place.machine.simulated else "has no accelerator"
        notes.reason(head, f"how long it takes and how often it fails is unknown: {place.machine.name} {why}")
        return
    fitting, mark = as_it_fits(model, place)
    if fitting is None:
        notes.reason(head, "how long it takes is unknown: it is in no layout that is known to fit on these nodes")
        return
    if mark:
        notes.reason(head, f"speed and goodput are those of a run {mark}, for what is declared does not fit")
    for each in (*_speed(model, tokens, head, fitting, notes), *_survival(size, head, fitting, storage, notes)):
        alike = each.name.removeprefix(f"{head}.").startswith(IN_ANY_LAYOUT)
        yield each if alike or not mark else replace(each, why=f"{mark}: {each.why}")


def as_it_fits(model: Transformer, place: Place) -> tuple[Place | None, str]:
    """Laid out as declared, or as the suggestion has it where that does not fit; and what is to be said of it."""
    row = catalog.accelerators().get(place.machine.accelerator)
    if row is None or place.machine.simulated or isinstance(row.memory_gib, catalog.Unknown):
        return place, ""
    if memory.fits(memory.need(model, place.layout, place.samples), row.memory_gib) is not False:
        return place, ""
    found = _instead(model, place, row.memory_gib).best
    if found is None:
        return None, ""
    laid = replace(place, layout=found.layout)
    once = "with one sample at once" if laid.samples > 1 else ""
    layout = f"as {found.said}" if laid.layout != place.layout else ""
    return laid, ", ".join(filter(None, (layout, once)))


def _speed(model: Transformer, tokens: int | None, head: str, place: Place, notes: Notes) -> Iterator[Expectation]:
    try:
        step = training.step(model, place.layout, place.samples, place.machine, place.nodes, place.precision)
    except UnknownFactError as error:
        notes.reason(head, f"how long a step takes is unknown: {error}")
        return
    per_step = place.batch * (model.sequence or 0)
    ends = [("min", "max", step.fastest)] + ([("max", "min", step.slowest)] if step.slowest else [])
    if not step.slowest:
        on = f"{place.machine.accelerator} in {place.precision}"
        notes.reason(head, f"how slow a step may be is unknown: no run of such a model on {on} is published")
    peak = training.peak_tflops(place.machine, place.precision).value * 1e12 * place.layout.ranks
    for slow, fast, bound in ends:
        seconds, flops = bound.value, flops_per_token(model).value * per_step
        each = f"of steps of {figure(seconds)} s"
        yield _of(f"{head}.step_seconds_{slow}", bound, "s")
        share = f"{figure(flops)} FLOPs a step / {figure(peak)} FLOP/s of all peaks, {each}"
        yield _of(f"{head}.mfu_{fast}", Bound(flops / seconds / peak, share), "of the peak")
        rate = Bound(per_step / seconds, f"{many(per_step)} tokens, {each}")
        yield _of(f"{head}.tokens_per_second_{fast}", rate, "tokens/s")
        if tokens:
            days = Bound(
                tokens / rate.value / DAY_S, f"{many(tokens)} tokens at {figure(rate.value)} tokens/s, no failure"
            )
            yield _of(f"{head}.days_{slow}", days, "days")


def _survival(size: Bound, head: str, place: Place, storage: Mounted | None, notes: Notes) -> Iterator[Expectation]:
    """How often something fails, what a checkpoint costs, and what is left."""
    accelerators = place.nodes * place.machine.accelerators  # also one without a rank takes its node with it
    least, most = failures.mtbf_range_hours(accelerators, catalog.deployments().values())
    yield _of(f"{head}.failure_hours_min", least, "h")
    yield _of(f"{head}.failure_hours_max", most, "h")
    what = "how long a checkpoint takes, how often to save and goodput are unknown"
    if storage is None:
        notes.reason(head, f"{what}: no declared storage is where checkpoints lie")
        return
    try:
        nodes = [(place.machine, place.nodes)]
        writes, reads = storage.writes(nodes), storage.reads(nodes)
    except UnknownFactError as error:
        notes.reason(head, f"{what}: {error}")
        return
    write = checkpoints.write_seconds(size.value, writes)
    read = checkpoints.read_seconds(size.value, max(1, place.layout.copies // place.layout.sharded), reads)
    yield _of(f"{head}.checkpoint_seconds_min", write, "s")
    yield _of(f"{head}.restart_read_seconds_min", read, "s")
    yield _of(f"{head}.checkpoint_every_seconds_min", failures.interval_s(write.value, least.value * 3600), "s")
    good = failures.goodput(write.value, read.value, most.value * 3600)
    words = f"{good.why}; nothing but reading counted as recovering, and the rarest failures that were published"
    yield _of(f"{head}.goodput_max", Bound(good.value, words), "of the time")


def fits(plan: Plan) -> Iterator[Fit]:
    """Whether the declared model fits, on each pool of the default queue; nothing where none is declared."""
    if plan.training.model.parameters is None:
        return
    model = transformer(plan.training.model)
    for place in places(plan.training, plan.groups, plan.scheduler):
        yield _fit(model, place)


def _fit(model: Transformer, place: Place) -> Fit:
    """As a run does it that asks for nothing else; what such a run could ask for instead is no error."""
    needed = memory.need(model, place.layout, place.samples)
    total = f"{_laid(place)}, a rank needs {figure(needed.least_bytes / GIB)} GiB{'' if needed.whole else ' or more'}"
    row = catalog.accelerators().get(place.machine.accelerator)
    if place.machine.simulated or row is None:
        what = "is simulated, and its accelerators hold nothing" if row else "has no accelerator"
        return Fit("unknown", f"{total}; {place.machine.name} {what}", "")
    if isinstance(row.memory_gib, catalog.Unknown):
        return Fit("unknown", f"{total}; the catalog does not know the memory of {row.name}", "look it up")
    usable = f"{1 - memory.HEADROOM_SHARE:.0%} of {row.memory_gib} GiB of {row.name}"
    verdict = memory.fits(needed, row.memory_gib)
    if verdict:
        return Fit("pass", f"{total}, and it may have {usable}", "")
    if verdict is None:
        hint = "write layers, hidden, heads, vocabulary and sequence of the model"
        return Fit("unknown", f"{total}; more is not known, and it may have {usable}: {needed.why}", hint)
    text, instead = f"{total}, and it may have {usable}: {needed.why}", _instead(model, place, row.memory_gib)
    wrong = instead.bundled.layout != place.layout if instead.bundled else _hopeless(model, place, row.memory_gib)
    return Fit("fail", text, _suggestion(place, instead), "error" if wrong else "warning")


def idle(plan: Plan) -> Iterator[Fit]:
    """Whether a step of the declared model has fewer samples than there are copies of it."""
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


def _hopeless(model: Transformer, place: Place, memory_gib: int) -> bool:
    """Whether no run can have this layout: not with one sample at once, nor if it computed activations again."""
    least = (memory.need(model, place.layout, 1, recomputed=again) for again in (False, True))
    return all(memory.fits(needed, memory_gib) is False for needed in least)


@dataclass(frozen=True)
class Instead:
    """What fits with one sample at once; None where nothing is known to."""

    bundled: Need | None
    """With the bundled training: as declared, or the plainest of its layouts."""
    again: bool
    """Whether one of its layouts would fit if it computed activations again, which it does not."""
    plainest: Need | None
    """With any framework."""

    @property
    def best(self) -> Need | None:
        return self.bundled or self.plainest


def _instead(model: Transformer, place: Place, memory_gib: int) -> Instead:
    plain = [*memory.plainest(place.layout.ranks, place.node_ranks, model.heads, model.layers, model.sequence)]
    found = memory.suggested(model, [place.layout, *memory.bundled(plain)], memory_gib, place.batch)
    again = found is not None and found.recomputed
    return Instead(None if again else found, again, memory.suggested(model, plain, memory_gib, place.batch))


def _suggestion(place: Place, instead: Instead) -> str:
    """The declared layout where one sample at once fits, and otherwise the plainest that does."""
    if found := instead.bundled:
        how = [f"write {_written(found.layout)}"] if found.layout != place.layout else []
        if replace(place, layout=found.layout).samples > 1:
            how.append("submit runs with `--set micro=1`, so that they work on one sample at once")
        return f"{'; '.join(how)}: {figure(found.least_bytes / GIB)} GiB a rank"
    if other := instead.plainest:
        split = "; its tp leaves sequences whole" if other.layout.tensor > 1 else ""
        again = " without computing activations again, which it does not" if instead.again else ""
        return (
            f"{other.said}, the plainest that fits, needs {figure(other.least_bytes / GIB)} GiB a rank and another "
            f"framework: no layout of the bundled training fits{again}{split}"
        )
    return "no layout is known to fit on these nodes: take more of them, or accelerators with more memory"


def _written(layout: Layout) -> str:
    """As a declaration has it."""
    return f"layout: tp and tensor_parallel: {layout.tensor}" if layout.tensor > 1 else f"layout: {layout.name}"


def _laid(place: Place) -> str:
    ranks = "1 rank" if place.layout.ranks == 1 else f"{place.layout.ranks} ranks"
    samples = "1 sample" if place.samples == 1 else f"{place.samples} samples"
    return f"{place.layout.name} on {ranks} of {place.pool}, {samples} at once"


def _of(name: str, bound: Bound, unit: str) -> Expectation:
    return Expectation(name, rounded(bound.value), unit, bound.why)
