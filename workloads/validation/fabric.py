"""Networks that carry collectives: bytes that each NIC counted during an all-reduce, run as jobs do.

Nothing here names a network: the job environment does. The rate does not matter, because counters cannot be slow. The
management network is counted next to the rails: it should carry none of these bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from .device import device_of, done
from .group import together
from .nics import Nic, interface, interface_of, rdma_ports
from .ranks import Ranks
from .result import Answer


@dataclass(frozen=True)
class Options:
    """Settings of the measured all-reduce."""

    bytes: int = 2**22
    """Bytes of the reduced data."""
    rounds: int = 8
    """Number of reductions, after an uncounted one for traffic that occurs only at the beginning."""
    rdma: bool = False
    """Whether the rails are RDMA devices, whose traffic interfaces do not count."""
    wait: float = 10.0
    """Seconds that one all-reduce may take."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or self.rounds < 1 or self.wait <= 0:
            raise ValueError("bytes, rounds and wait must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Count the bytes of each NIC during an all-reduce. Raise ValueError for one rank."""
    if ranks.world < 2:
        raise ValueError("fabric needs two ranks or more: start it with srun -N2")
    device = device_of(ranks, answer)
    answer.backend = "nccl" if device.type == "cuda" else "gloo"
    nics = _nics(ranks, options.rdma, answer)
    count = max(1, options.bytes // 4 // ranks.world) * ranks.world
    data, meeting = torch.rand(count, device=device), ranks.meeting

    def reduce(rounds: int) -> None:
        for _ in range(rounds):
            dist.all_reduce(data, op=dist.ReduceOp.MAX)
            done(device)

    def work() -> None:
        reduce(1)
        meeting.exchange("warm")
        before = [nic.moved() for nic in nics]
        meeting.exchange("counted")  # wait until all ranks have counted
        reduce(options.rounds)
        meeting.exchange("done")  # data that has not arrived may not have been sent
        for nic, earlier in zip(nics, before, strict=True):
            for way, now, then in zip(("sent", "received"), nic.moved(), earlier, strict=True):
                answer.value(f"{nic.use}_{way}", "bytes", float(now - then), device=nic.name, bytes=4 * count)

    together(ranks, answer, ranks.rank, options.wait, work)


def _nics(ranks: Ranks, rdma: bool, answer: Answer) -> list[Nic]:
    node = ranks.cluster.named(ranks.node)
    management = interface_of(node.address) if node else ""
    if not management:
        raise ValueError(f"none of its interfaces has the address {node.address if node else 'of this node'}")
    rails = tuple(ranks.cluster.rails_of(ranks.node))
    found = list(rdma_ports(management)) if rdma else [interface("fabric", rail) for rail in rails]
    if not found:
        raise ValueError("it has no device for RDMA" if rdma else "the option cluster has no rails of this node")
    if management in rails:
        answer.text("skipped", "management", f"{management} is a rail, too")
        return found
    return [*found, interface("management", management)]
