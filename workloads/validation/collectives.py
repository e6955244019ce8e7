"""Measure collectives rail by rail and size by size, with the rate that each rank's link must have carried.

Each rail has a group with the requested order of ranks: a ring over ordered ranks crosses trunks less often. All times
are those of the slowest rank. Rounds follow each other without a pause, so that the burst of a shaper is spent before
the clock starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .device import device_of, done
from .group import together
from .ranks import Ranks
from .result import Answer
from .timing import spread

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
ROUNDS_LEAST, ROUNDS_MOST = 3, 200


@dataclass(frozen=True)
class Options:
    """Settings of the sweeps."""

    operations: tuple[str, ...] = ("all_reduce",)
    bytes: tuple[int, ...] = (2**20, 2**22, 2**24)
    """Sizes of the whole, as nccl-tests count them: of a rank's data before a reduction, or after a gathering."""
    rails: tuple[str, ...] = ()
    """Rails to measure; by default all rails of the nodes. NCCL reads its environment once: one rail per start, or all
    together."""
    order: tuple[str, ...] = ()
    """Nodes in the order of the ring; without it as Slurm numbers the ranks."""
    seconds: float = 0.5
    """Seconds for each operation and size, after one round that does not count."""
    wait: float = 10.0
    """Seconds that one operation may take."""

    def __post_init__(self) -> None:
        if strange := [name for name in self.operations if name not in OPERATIONS]:
            raise ValueError(f"knows no operation {', '.join(strange)}: it has {', '.join(OPERATIONS)}")
        if min(self.bytes, default=0) < 1 or self.seconds <= 0 or self.wait <= 0:
            raise ValueError("bytes, seconds and wait must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Measure all operations on all rails. Raise ValueError for one rank."""
    if ranks.world < 2:
        raise ValueError("collectives needs two ranks or more: start it with srun -N2")
    device = device_of(ranks, answer)
    answer.backend = "nccl" if device.type == "cuda" else "gloo"
    meeting = ranks.meeting
    there = meeting.exchange(ranks.local)
    if len(there) < ranks.world:
        ranks.collect(answer)
        return
    places = order_of(meeting.names, options.order)
    for number, rail in enumerate(_rails(ranks, options, answer.backend)):
        meeting.exchange(number, 2 * options.wait)  # measure the rails one after the other, even if one broke
        if meeting.absent:
            break
        _on_rail(Group(ranks, options, answer, device, places), rail)
    ranks.collect(answer)


def order_of(names: Mapping[int, str], order: tuple[str, ...]) -> list[int]:
    """The ranks in the order of the ring."""
    if strange := [name for name in order if name not in names.values()]:
        raise ValueError(f"order names {', '.join(strange)}, where no rank is")
    if order and (left := sorted({name for name in names.values() if name not in order})):
        raise ValueError(f"order lacks {', '.join(left)}")
    if not order:
        return sorted(names)
    return [rank for name in order for rank in sorted(names) if names[rank] == name]


def _rails(ranks: Ranks, options: Options, backend: str) -> tuple[str, ...]:
    """Return the rails to measure one by one; empty text means the library's choice."""
    wanted = options.rails or ranks.cluster.rails
    if strange := [rail for rail in wanted if rail not in ranks.cluster.rails]:
        raise ValueError(f"the option cluster has no rail {', '.join(strange)}")
    if backend == "gloo":
        return wanted or ("",)
    if len(options.rails) > 1:
        raise ValueError("NCCL reads its environment once: name one rail a start, or none for all of them together")
    return options.rails or ("",)


@dataclass(frozen=True)
class Group:
    """Data to create a group of all ranks on a rail."""

    ranks: Ranks
    options: Options
    answer: Answer
    device: torch.device
    places: list[int]


def _on_rail(group: Group, rail: str) -> None:
    ranks, options, answer = group.ranks, group.options, group.answer

    def work() -> None:
        for operation in options.operations:
            for size in options.bytes:
                _measure(group, operation, size, rail)

    name = "NCCL_SOCKET_IFNAME" if answer.backend == "nccl" else "GLOO_SOCKET_IFNAME"
    before = os.environ.get(name)
    if rail:
        os.environ[name] = answer.environment[name] = rail
    together(ranks, answer, group.places.index(ranks.rank), options.wait, work, rail)
    if before is not None:
        os.environ[name] = before
    else:
        os.environ.pop(name, None)


def _measure(group: Group, operation: str, size: int, rail: str) -> None:
    """Measure an operation at one size: each round takes as long as its slowest rank."""
    world, device, answer = group.ranks.world, group.device, group.answer
    count = max(1, size // 4 // world) * world
    work = WORK[operation](count, world, device)
    dist.barrier()
    begun = time.perf_counter()
    work()
    done(device)
    first = slowest([time.perf_counter() - begun], device)[0]
    rounds = max(ROUNDS_LEAST, min(ROUNDS_MOST, int(group.options.seconds / max(first, 1e-6))))
    took = []
    before = time.perf_counter()
    for _ in range(rounds):
        work()
        done(device)
        after = time.perf_counter()
        took.append(after - before)
        before = after
    rates = [4 * count / each / 1e9 for each in slowest(took, device)]
    if group.ranks.rank == 0:
        note = NOTES.get((answer.backend, operation), "")
        where = {"node": "", "rail": rail, "device": answer.device, "bytes": 4 * count, "note": note}
        found = spread(rates)
        answer.value(f"{operation}_algbw", "GB/s", found, **where)
        answer.value(f"{operation}_busbw", "GB/s", found.scaled(factor(operation, world)), **where)


def factor(operation: str, world: int) -> float:
    """Return the part of the bytes that each rank's link carries in one direction, as in the usual definition of
    busbw."""
    shares = {"all_reduce": 2 * (world - 1) / world, "send_recv": 1.0}
    return shares.get(operation, (world - 1) / world)


def slowest(took: list[float], device: torch.device) -> list[float]:
    """Return the duration of each round on its slowest rank."""
    times = torch.tensor(took, dtype=torch.float64, device=device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return [float(each) for each in times.cpu()]


Work = Callable[[], object]


def _all_reduce(count: int, world: int, device: torch.device) -> Work:  # noqa: ARG001 (as the others)
    data = torch.rand(count, device=device)
    return lambda: dist.all_reduce(data, op=dist.ReduceOp.MAX)  # a sum would grow without end


def _all_gather(count: int, world: int, device: torch.device) -> Work:
    part, whole = torch.rand(count // world, device=device), torch.empty(count, device=device)
    return lambda: dist.all_gather_into_tensor(whole, part)


def _reduce_scatter(count: int, world: int, device: torch.device) -> Work:
    whole, part = torch.rand(count, device=device), torch.empty(count // world, device=device)
    return lambda: dist.reduce_scatter_tensor(part, whole)


def _all_to_all(count: int, world: int, device: torch.device) -> Work:  # noqa: ARG001 (as the others)
    gives, takes = torch.rand(count, device=device), torch.empty(count, device=device)
    return lambda: dist.all_to_all_single(takes, gives)


def _send_recv(count: int, world: int, device: torch.device) -> Work:
    """Return the operation in which each rank sends to the next one and receives from the previous one."""
    gives, takes = torch.rand(count, device=device), torch.empty(count, device=device)
    place = dist.get_rank()
    to, fro = (place + 1) % world, (place - 1) % world

    def work() -> None:
        ways = [dist.P2POp(dist.isend, gives, to), dist.P2POp(dist.irecv, takes, fro)]
        for request in dist.batch_isend_irecv(ways):
            request.wait()

    return work


WORK = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
}
NOTES = {("gloo", "reduce_scatter"): "gloo reduces everything to all and keeps a part"}
