"""Running a command on the cluster's nodes through its scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.plan import Plan, Queue


class TooFewNodesError(OperationError):
    """Fewer nodes can take a command now than requested."""


@dataclass(frozen=True)
class RunOptions:
    """Nodes and user of a command."""

    nodes: int = 0
    """Number of nodes; 0 for all that can take the command."""
    pool: str = ""
    """Pool of the nodes; empty for the default queue."""
    user: str = "root"
    gpus: int | None = None
    """Accelerators of each node; None for all of them."""
    wait: bool = False
    """Whether to wait for busy nodes, for any time."""


@dataclass(frozen=True)
class CommandRun:
    """A command on some nodes, as a job of the scheduler."""

    job_name: str
    """Unique name of the job, by which it can be cancelled when ssh has ended."""
    command: tuple[str, ...]
    """The local command that starts it, streams its output and ends with its exit code."""
    left_out: tuple[str, ...] = ()
    """Nodes that cannot take it now although requested, and the reason, in words."""


class Commands(Protocol):
    """A scheduler that runs commands of people."""

    def prepare(self, argv: Sequence[str], asked: RunOptions) -> CommandRun:
        """Prepare a task on each requested node. Raise an error if too few nodes can take it."""

    def cancel(self, run: CommandRun) -> None:
        """Cancel a job whose ssh ended early; ignore a silent cluster."""

    def expect_reachable(self) -> None:
        """Raise UnknownError with the reason if the head does not answer."""


def queue_of(plan: Plan, pool: str) -> Queue:
    """Queue of a pool, or the default one."""
    queues = plan.scheduler.queues
    pools = [group.name for group in plan.pools]
    if pool in [group.name for group in plan.scheduling_only]:
        asked = "see where a job would start: stampworks ssh head -- sbatch --test-only ..."
        raise InputError(f"pool {pool} is for scheduling only: no job can run there", asked)
    if pool and pool not in pools:
        raise InputError(f"no pool is called {pool!r} in cluster {plan.name}", nearest(pool, pools))
    in_order = sorted(queues, key=lambda queue: not queue.default)
    for queue in in_order:
        if not pool or pool in queue.pools:
            return queue
    raise InputError(f"pool {pool} is in no queue", "add it to a queue's pools in the declaration")
