"""Commands of people as jobs of Slurm: srun on the head, with its output through ssh."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence

from stampworks.operations import remote
from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.operations.run import CommandRun, queue_of
from stampworks.plan import Plan, Roster


class SlurmCommands:
    def __init__(self, plan: Plan, roster: Roster) -> None:
        self._plan, self._roster = plan, roster

    def prepare(self, argv: Sequence[str], nodes: int = 0, pool: str = "", user: str = "root") -> CommandRun:
        plan, roster, queue = self._plan, self._roster, queue_of(self._plan, pool)
        wanted = (pool,) if pool else queue.pools
        there = [member.name for member in roster.members if member.group in wanted]
        others = [
            member.name for member in roster.members if member.group in queue.pools and member.group not in wanted
        ]
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
        as_user = remote.as_user(user, [*srun, "--", *argv])
        return CommandRun(name, tuple(remote.ssh_command(roster, remote.head(roster).name, as_user)))

    def cancel(self, run: CommandRun) -> None:
        with contextlib.suppress(OperationError):
            self._ask(["scancel", f"--name={run.job_name}"])

    def expect_reachable(self) -> None:
        self._ask(["true"])

    def _ask(self, command: list[str]) -> None:
        remote.ask(self._roster, remote.head(self._roster).name, command, timeout_s=10)
