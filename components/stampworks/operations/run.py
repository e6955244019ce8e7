"""Running a command on the cluster's nodes through its scheduler."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from stampworks.operations import remote
from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.plan import Plan, Queue, Roster


@dataclass(frozen=True)
class Run:
    """One command on some nodes, as a job of the scheduler."""

    job_name: str
    """Nobody else's: the job can be cancelled by it when its ssh is gone."""
    command: tuple[str, ...]
    """The local command that starts it, streams its output and ends with its exit code."""


def prepare(plan: Plan, roster: Roster, argv: Sequence[str], nodes: int = 0, pool: str = "", user: str = "root") -> Run:
    """One task on each of `nodes` nodes: of a pool, or of the default queue; 0 means all of them."""
    queue = queue_of(plan, pool)
    wanted = (pool,) if pool else queue.pools
    there = [member.name for member in roster.members if member.group in wanted]
    others = [member.name for member in roster.members if member.group in queue.pools and member.group not in wanted]
    of = f"pool {pool}" if pool else f"queue {queue.name}"
    if not there:
        raise InputError(f"{of} has no nodes now", "`pulumi up` starts what is missing")
    if nodes > len(there):
        raise InputError(f"{of} has {len(there)} nodes now, not {nodes}", f"ask for 1 to {len(there)}")
    if user != "root" and user not in [declared.name for declared in plan.users]:
        names = ["root", *(declared.name for declared in plan.users)]
        raise InputError(f"no user is called {user!r} in cluster {plan.name}", nearest(user, names))
    name = f"stampworks-run-{secrets.token_hex(4)}"
    srun = ["srun", f"--nodes={nodes or len(there)}", "--ntasks-per-node=1", f"--partition={queue.name}"]
    srun += [f"--job-name={name}", "--chdir=/tmp"]  # the one directory that every node has
    srun += [f"--exclude={','.join(others)}"] if others else []
    # who asks for none sees none, where Slurm holds jobs to what they got
    fewest = min(group.machine.accelerators for group in plan.pools if group.name in wanted)
    srun += [f"--gres=gpu:{fewest}"] if fewest else []
    # a login shell of the user: its environment, its groups, its home, and nothing of root's
    as_user = ["runuser", "-l", user, "-c", shlex.join([*srun, "--", *argv])]
    return Run(name, tuple(remote.ssh_command(roster, remote.head(roster).name, as_user)))


def cancel(roster: Roster, job_name: str) -> None:
    """Cancels a job whose ssh ended early; a cluster that does not answer is left alone."""
    with contextlib.suppress(OperationError):
        remote.ask(roster, remote.head(roster).name, ["scancel", f"--name={job_name}"], timeout_s=10)


def reachable(roster: Roster) -> None:
    """Raises UnknownError, with the reason, when nobody answers on the head."""
    remote.ask(roster, remote.head(roster).name, ["true"], timeout_s=10)


def queue_of(plan: Plan, pool: str) -> Queue:
    """The queue of a pool, or the default one."""
    queues = plan.scheduler.queues
    pools = [group.name for group in plan.pools]
    if pool in [group.name for group in plan.scheduling_only]:
        asked = "ask where it would start: stampworks ssh head -- sbatch --test-only ..."
        raise InputError(f"pool {pool} is for scheduling only: no job can run there", asked)
    if pool and pool not in pools:
        raise InputError(f"no pool is called {pool!r} in cluster {plan.name}", nearest(pool, pools))
    in_order = sorted(queues, key=lambda queue: not queue.default)
    for queue in in_order:
        if not pool or pool in queue.pools:
            return queue
    raise InputError(f"pool {pool} is in no queue", "add it to a queue's pools in the declaration")
