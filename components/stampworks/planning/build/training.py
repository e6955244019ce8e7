"""Plan the defaults of training runs, and check that the declared nodes support the declared layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from stampworks import catalog, declaration
from stampworks.physics.bounds import UnknownFactError
from stampworks.physics.layouts import fitting, misfit
from stampworks.physics.training import peak_tflops
from stampworks.plan import Checkpoints, Group, Machine, Precision, Scheduler, Tracker, Training
from stampworks.planning.build import model
from stampworks.planning.build.notes import Notes
from stampworks.planning.build.placement import precision as computed_in
from stampworks.text.amounts import counted


def build(declared: declaration.Training, groups: Sequence[Group], scheduler: Scheduler, notes: Notes) -> Training:
    """Plan the defaults of runs. Note a problem for a layout that the declared nodes do not support."""
    pools = [group for group in groups if group.role == "worker"]
    ranks = {pool.name: declared.ranks or _ranks(pool.machine) for pool in pools}
    default = next((queue.pools for queue in scheduler.queues if queue.default), ())
    taken = [pool for pool in pools if pool.name in default]
    batch = _batch(declared, taken, ranks, notes)
    training = Training(
        layout=declared.layout,
        tensor_parallel=declared.tensor_parallel,
        precision=declared.precision,
        steps=declared.steps,
        batch=batch,
        tracker=Tracker(declared.tracker.kind, declared.tracker.url, declared.tracker.experiment),
        checkpoints=Checkpoints(declared.checkpoints.directory, declared.checkpoints.keep),
        node_ranks=declared.ranks,
        ranks=tuple(ranks.items()),
        peak_tflops=_peaks(pools, declared.precision),
        model=model.build(declared, batch, notes),
    )
    _check_ranks(declared.ranks, taken, notes)
    _check_layout(training, taken, notes)
    _check_precision(training, taken, notes)
    return training


def _ranks(machine: Machine) -> int:
    """Return one rank for each accelerator. Accelerators of simulated machines compute nothing, so their nodes have one
    rank."""
    return 1 if machine.simulated else machine.accelerators or 1


def _batch(declared: declaration.Training, pools: Sequence[Group], ranks: Mapping[str, int], notes: Notes) -> int:
    """Return the batch as written. The default is meant for small runs; a declared model gets a sample for every
    copy."""
    if "batch" in declared.model_fields_set or declared.model == type(declared.model)():
        return declared.batch
    split = declared.tensor_parallel if declared.layout == "tp" else 1
    found = [
        (fitting(declared.layout, declared.tensor_parallel, pool.count, ranks[pool.name]) * ranks[pool.name], pool.name)
        for pool in pools
        if pool.machine.accelerators or not any(each.machine.accelerators for each in pools)
    ]
    most, pool = max(found, default=(0, ""))
    if most // split <= declared.batch:
        return declared.batch
    laid = f"{most} ranks of {pool}" + (f" in groups of {split}" if split > 1 else "")
    of = f"{most // split} copies of the declared model: {laid}"
    notes.reason("training.batch", f"the default, a sample for each of {of}")
    return most // split


def _peaks(pools: Sequence[Group], precision: Precision) -> tuple[tuple[str, float], ...]:
    found = []
    for pool in pools:
        with suppress(UnknownFactError):
            peak = peak_tflops(catalog.machines()[pool.machine.name], computed_in(precision))
            found.append((pool.name, peak.value))
    return tuple(found)


def _check_ranks(ranks: int, pools: Sequence[Group], notes: Notes) -> None:
    """Require an accelerator for each rank; simulated machines and those without accelerators have no limit."""
    for pool in pools:
        least = _ranks(pool.machine)
        if pool.machine.accelerators and not pool.machine.simulated and ranks > least:
            has = counted(least, "accelerator")
            what = f"pool {pool.name}: {ranks} ranks a node, and {pool.machine.name} has {has}"
            hint = f"write ranks: {least} or less, or leave it out for one with each accelerator"
            notes.problem("training.ranks", what, hint)
            return


def _check_precision(training: Training, pools: Sequence[Group], notes: Notes) -> None:
    if training.precision != "float8":
        return
    if training.layout == "tp":
        what = "float8 scales whole tensors, and layout tp cuts them"
        notes.problem("training.precision", what, "write precision: bfloat16, or layout: fsdp")
    for pool in pools:
        machine = catalog.machines()[pool.machine.name]
        if machine.simulated or not machine.accelerator:
            continue
        row = catalog.accelerators()[machine.accelerator]
        if row.fp8_dense_tflops == 0:
            what = f"pool {pool.name}: {row.name} of {machine.name} does not support it"
            notes.problem("training.precision", what, "write precision: bfloat16, or another machine")


def _check_layout(training: Training, pools: Sequence[Group], notes: Notes) -> None:
    """Refuse a layout that no number of nodes can have, and note when not all nodes can have it."""
    ranks = dict(training.ranks)
    found = [(pool, fitting(training.layout, training.tensor_parallel, pool.count, ranks[pool.name])) for pool in pools]
    for pool, largest in found:
        why = misfit(training.layout, training.tensor_parallel, pool.count, ranks[pool.name])
        if why and largest:
            notes.reason("training.tensor_parallel", f"{pool.name}: {why}: runs take {largest} nodes of it at most")
        elif why and not any(fits for _, fits in found):
            divides = f"write a tensor_parallel that divides {pool.count * ranks[pool.name]}, or another layout"
            field = "tensor_parallel" if training.layout == "tp" else "layout"
            hint = divides if training.layout == "tp" else "write layout: fsdp, or ranks: 2 or more"
            notes.problem(f"training.{field}", f"pool {pool.name}: {why}", hint)
