"""Commands of users as jobs of Slurm: srun on the head, with its output through ssh."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence

from stampworks.operations import remote
from stampworks.operations.errors import InputError, OperationError
from stampworks.operations.run import CommandRun, RunOptions, TooFewNodesError, queue_of
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm.nodes import out_of_order
from stampworks.operations.status import holder
from stampworks.operations.users import expect_user
from stampworks.plan import Group, Plan, Queue, Roster
from stampworks.text.names import fold

IMMEDIATE_S = 60
"""Seconds in which available nodes must start the command: another job may have been faster."""


class SlurmCommands:
    """Commands of users as jobs of Slurm."""

    def __init__(self, plan: Plan, roster: Roster) -> None:
        self._plan, self._roster = plan, roster

    def prepare(self, argv: Sequence[str], asked: RunOptions) -> CommandRun:
        """Return the command in the form of srun. Raise InputError if the nodes do not exist."""
        queue = queue_of(self._plan, asked.pool)
        pools = [pool for pool in self._plan.pools if pool.name in ((asked.pool,) if asked.pool else queue.pools)]
        of = f"pool {asked.pool}" if asked.pool else f"queue {queue.name}"
        names = [pool.name for pool in pools]
        there = [member.name for member in self._roster.members if member.group in names]
        if not there:
            raise InputError(f"{of} has no nodes now", "`pulumi up` starts missing nodes")
        if asked.nodes > len(there):
            raise InputError(f"{of} has {len(there)} nodes now, not {asked.nodes}", f"ask for 1 to {len(there)}")
        expect_user(self._plan, asked.user)
        gpus = _gpus(of, pools, asked.gpus)
        unfit, busy = self._unfit(pools, gpus)
        left_out = {**self._absent(pools), **unfit, **({} if asked.wait else self._jobs(busy))}
        able = [name for name in there if name not in left_out]
        if len(able) < (asked.nodes or 1):
            ways = [f"ask for 1 to {len(able)}"] if able else []
            ways += ["--wait waits for nodes on which jobs run"] if busy and not asked.wait else []
            raise _too_few(of, len(able), asked.nodes, left_out, "; ".join(ways))
        others = [name for name in self._in_queue(queue) if name not in able]
        name = f"stampworks-run-{secrets.token_hex(4)}"
        srun = ["srun", f"--nodes={asked.nodes or len(able)}", "--ntasks-per-node=1", f"--partition={queue.name}"]
        srun += [f"--job-name={name}", "--chdir=/tmp"]  # the one directory that every node has
        srun += [] if asked.wait else [f"--immediate={IMMEDIATE_S}"]
        srun += [f"--exclude={','.join(others)}"] if others else []
        # a job without accelerators sees none, where Slurm confines jobs
        srun += [f"--gres=gpu:{gpus}"] if gpus else []
        as_user = remote.as_user(asked.user, [*srun, "--", *argv])
        command = remote.ssh_command(self._roster, remote.head(self._roster).name, as_user)
        return CommandRun(name, tuple(command), () if asked.nodes else _lines(left_out))

    def cancel(self, run: CommandRun) -> None:
        """Cancel the job of an interrupted command; an error is ignored."""
        with contextlib.suppress(OperationError):
            self._ask(["scancel", f"--name={run.job_name}"])

    def expect_reachable(self) -> None:
        """Raise OperationError if the head does not answer."""
        self._ask(["true"])

    def _ask(self, command: list[str]) -> None:
        remote.ask(self._roster, remote.head(self._roster).name, command, timeout_s=10)

    def _in_queue(self, queue: Queue) -> list[str]:
        """Return the nodes that Slurm could use, including those that it would start, in any pool of the queue."""
        there = [member.name for member in self._roster.members if member.group in queue.pools]
        starts = [node.name for pool in self._plan.pools if pool.name in queue.pools for node in pool.nodes]
        return list(dict.fromkeys((*there, *starts)))

    def _absent(self, pools: Sequence[Group]) -> dict[str, str]:
        """Nodes that always run, and do not."""
        there = {member.name for member in self._roster.members}
        always = [node.name for pool in pools for node in pool.nodes[: pool.count_min]]
        return {name: "it does not run" for name in always if name not in there}

    def _unfit(self, pools: Sequence[Group], gpus: int) -> tuple[dict[str, str], list[str]]:
        """Return running nodes that cannot take a task with so many accelerators, each with the reason; and those where
        only jobs prevent it."""
        machines = {pool.name: pool.machine for pool in pools}
        known, found, busy = slurm.nodes(self._roster), dict[str, str](), list[str]()
        for member in self._roster.members:
            if member.group not in machines:
                continue
            node, has = known.get(member.name), machines[member.group].accelerators
            if has < gpus:
                found[member.name] = f"it has {has or 'no'} accelerators"
            elif node is None:
                found[member.name] = "Slurm does not know it"
            elif why := out_of_order(node):
                found[member.name] = f"{why} (held by {holder(node.reason)})" if node.reason.text else why
            elif _is_busy(node, gpus):
                busy.append(member.name)
        return found, busy

    def _jobs(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return the jobs on these nodes, in words."""
        jobs = slurm.jobs(self._roster) if nodes else ()
        held = {name: [str(job.id) for job in jobs if name in job.nodes] for name in nodes}
        return {name: f"busy with job {', '.join(ids)}" if ids else "it is reserved" for name, ids in held.items()}


def _gpus(of: str, pools: Sequence[Group], asked: int | None) -> int:
    """Return the accelerators of each node for a command: by default as many as all pools have."""
    counts = [pool.machine.accelerators for pool in pools]
    if asked is None:
        return min(counts)
    if asked > max(counts):
        raise InputError(f"nodes of {of} have {max(counts)} accelerators, not {asked}", f"ask for 0 to {max(counts)}")
    return asked


def _is_busy(node: slurm.SlurmNode, gpus: int) -> bool:
    """Return whether jobs use resources that a task with this many accelerators needs; unknown counts as free."""
    free = None if node.gpus is None or node.gpus_allocated is None else node.gpus - node.gpus_allocated
    return not {"allocated", "reserved"}.isdisjoint(node.states) or (free is not None and free < gpus)


def _too_few(of: str, able: int, wanted: int, left_out: Mapping[str, str], hint: str) -> TooFewNodesError:
    what = f"{able or 'none'} of the nodes of {of} can take it now" + (f", not {wanted}" if wanted else "")
    return TooFewNodesError("\n  ".join([what, *_lines(left_out)]), hint or "stampworks status shows more")


def _lines(left_out: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each reason, with all its nodes."""
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        reasons.setdefault(why, []).append(name)
    return tuple(f"{fold(names)}: {why}" for why, names in reasons.items())
