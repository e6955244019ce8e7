"""Place a declared model on the nodes of a pool: as declared, or in a layout that fits instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from stampworks import catalog
from stampworks.physics import memory
from stampworks.physics.layouts import fitting
from stampworks.physics.memory import Layout, Need
from stampworks.physics.training import Precision
from stampworks.physics.transformer import Transformer
from stampworks.plan import Group, Scheduler, Training
from stampworks.plan import Precision as Declared


@dataclass(frozen=True)
class Placement:
    """A pool that a run may use, and the layout of the model on it."""

    pool: str
    machine: catalog.Machine
    nodes: int
    node_ranks: int
    layout: Layout
    batch: int
    """Samples of a step, over all copies."""
    precision: Precision

    @property
    def samples(self) -> int:
        """Return the samples of the copy with the most of them; the other copies wait for it."""
        return ceil(self.batch / self.layout.copies)

    @property
    def working(self) -> float:
        """Return the complete meaning of a declaration. Raise DeclarationError with every problem at the user's own
        line. Pure: the same declaration and catalog always give the same plan."""
        return self.batch / (self.samples * self.layout.copies)


def precision(told: Declared) -> Precision:
    """Return the precision of a run that requests none, on accelerators."""
    return "bfloat16" if told == "auto" else told


def places(told: Training, groups: Sequence[Group], scheduler: Scheduler) -> list[Placement]:
    """Return the placements of a run that requests none: all nodes of a pool of the default queue.

    Pools without accelerators are returned only when no other exists: nobody declares a model for them.
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
        found.append(Placement(group.name, machine, nodes, ranks[group.name], layout, told.batch, computes))
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


def as_it_fits(model: Transformer, place: Placement) -> tuple[Placement | None, str]:
    """Return the placement as declared, or with the suggested layout when that does not fit, and a description of the
    change."""
    row = catalog.accelerators().get(place.machine.accelerator)
    if row is None or place.machine.simulated or isinstance(row.memory_gib, catalog.Unknown):
        return place, ""
    if memory.fits(memory.need(model, place.layout, place.samples), row.memory_gib) is not False:
        return place, ""
    found = alternatives(model, place, row.memory_gib).best
    if found is None:
        return None, ""
    laid = replace(place, layout=found.layout)
    once = "with one sample at once" if laid.samples > 1 else ""
    layout = f"as {found.said}" if laid.layout != place.layout else ""
    return laid, ", ".join(filter(None, (layout, once)))


@dataclass(frozen=True)
class Alternatives:
    """Layouts that fit with one sample at once; None when none is known."""

    bundled: Need | None
    """A layout of the bundled training: the declared one, or the plainest that fits."""
    again: bool
    """Whether a bundled layout would fit with recomputed activations, which the training does not support."""
    plainest: Need | None
    """A layout of any framework."""

    @property
    def best(self) -> Need | None:
        """The bundled layout that fits, else the plainest one; None if no layout fits."""
        return self.bundled or self.plainest


def alternatives(model: Transformer, place: Placement, memory_gib: int) -> Alternatives:
    """Return the layouts in which the model fits on the nodes of a placement."""
    plain = [*memory.plainest(place.layout.ranks, place.node_ranks, model.heads, model.layers, model.sequence)]
    found = memory.suggested(model, [place.layout, *memory.bundled(plain)], memory_gib, place.batch)
    again = found is not None and found.recomputed
    return Alternatives(None if again else found, again, memory.suggested(model, plain, memory_gib, place.batch))


def laid_out(place: Placement) -> str:
    """Return a placement in words, as in `ddp on 16 ranks of gpu, 1 sample at once`."""
    ranks = "1 rank" if place.layout.ranks == 1 else f"{place.layout.ranks} ranks"
    samples = "1 sample" if place.samples == 1 else f"{place.samples} samples"
    return f"{place.layout.name} on {ranks} of {place.pool}, {samples} at once"
