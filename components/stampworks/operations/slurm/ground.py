"""Proving nodes of Slurm: a reservation keeps others away, and srun starts programs.

Running jobs are left alone, and so are nodes that others hold.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Mapping, Sequence

from stampworks.operations import remote
from stampworks.operations.errors import OperationError, UnknownError
from stampworks.operations.ground import Ended, NodeStanding, Progress, look_again
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm import reservation
from stampworks.operations.slurm.nodes import busy_nodes, hold, out_of_order, standing
from stampworks.operations.slurm.reservation import Lease
from stampworks.plan import Roster
from stampworks.text.reasons import DrainReason

_START_S = 10.0
"""Seconds to start: the nodes are free and reserved, so that a program that has not started by then never will."""
_LATE_S = 20.0
"""Seconds that srun may wait for healthy nodes when a node fails: the failed node is drained by then."""


class SlurmGround:
    """The proving ground of a Slurm, held by a reservation."""

    scheduler = "Slurm"

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._lease: Lease | None = None

    def await_turn(self, patience_s: float, progress: Progress) -> None:
        """Wait until no other proof runs. Raise OperationError when patience is over."""
        reservation.await_turn(self._roster, patience_s, progress)

    def look(self, names: Collection[str]) -> dict[str, NodeStanding]:
        """Return the state of nodes, after another check of held ones, which may be repaired.

        Undetected problems show before the first program, as before any job.
        """
        found = slurm.look(self._roster)
        held = [name for name in names if name in found.nodes and _held_by_health(found.nodes[name])]
        if held:
            look_again(self._roster, held)
            found = slurm.look(self._roster)
        busy = busy_nodes(found.jobs)
        return {name: standing(node, busy.get(name, "")) for name, node in found.nodes.items()}

    def held(self) -> dict[str, DrainReason]:
        """Return the drained nodes with the reasons."""
        return {name: node.reason for name, node in slurm.nodes(self._roster).items() if "drain" in node.states}

    def take(self, names: Sequence[str]) -> bool:
        """Make the reservation; False when another proof was faster."""
        self._lease = reservation.take(self._roster, names)
        return self._lease is not None

    def extend(self, seconds: float) -> None:
        """Extend the reservation to this time from now."""
        if self._lease:
            self._lease.extend(seconds)

    def give_back(self) -> None:
        """Delete the reservation."""
        if self._lease:
            self._lease.give_back()

    def let_in(self, names: Sequence[str]) -> None:
        """Resume nodes."""
        self._ask(["scontrol", "update", f"nodename={','.join(names)}", "state=resume"])

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """Drain nodes that are not drained yet."""
        known = slurm.nodes(self._roster) if reasons else {}
        free = [name for name in reasons if name in known and "drain" not in known[name].states]
        hold(self._roster, {name: reasons[name] for name in free})

    def busy(self) -> dict[str, str]:
        """Return the nodes on which jobs run, with a sentence about each."""
        return busy_nodes(slurm.jobs(self._roster))

    def lost(self, names: Sequence[str], limit_s: float, progress: Progress) -> dict[str, str]:
        """Return the nodes that cannot be measured, with the reasons."""
        known = slurm.answered(self._roster, names, limit_s, progress)
        out = {name: out_of_order(known[name]) if name in known else "Slurm does not know it" for name in names}
        return {name: why for name, why in out.items() if why}

    def prepare(self, names: Sequence[str], progress: Progress) -> None:
        """The nodes have it."""

    def start(
        self, queue: str, nodes: Sequence[str], accelerators: int, program: Sequence[str], limit_s: float
    ) -> Ended:
        """Run a program on all of these nodes with srun, and return its end."""
        name = f"{reservation.NAME}-{secrets.token_hex(4)}"
        command = ["timeout", "--kill-after=5", f"{limit_s:.0f}", *_srun(name, queue, nodes, accelerators), *program]
        try:
            ended = Ended(*remote.hear(self._roster, remote.head(self._roster).name, command, limit_s + _LATE_S))
        except UnknownError as error:
            ended = Ended(-1, "", str(error).splitlines()[0])
        if ended.code:
            with contextlib.suppress(OperationError):
                self._ask(["scancel", f"--name={name}"])
        return ended

    def _ask(self, command: list[str]) -> None:
        remote.ask(self._roster, remote.head(self._roster).name, command)


def _srun(name: str, queue: str, nodes: Sequence[str], accelerators: int) -> list[str]:
    """Return the beginning of an srun command with a rank on each node."""
    return [
        "srun",
        f"--reservation={reservation.NAME}",
        f"--partition={queue}",
        f"--job-name={name}",
        f"--nodelist={','.join(nodes)}",
        f"--nodes={len(nodes)}",
        "--ntasks-per-node=1",
        "--exclusive",
        # a job with a whole node has its accelerators, too, but its programs see only requested ones
        *([f"--gres=gpu:{accelerators}"] if accelerators else []),
        "--chdir=/tmp",
        "--input=none",
        "--label",
        "--kill-on-bad-exit=0",
        f"--immediate={_START_S:.0f}",
        "--wait=0",  # a rank may end long before the last one; another setting limits all ranks
        "--",
    ]


def _held_by_health(node: slurm.SlurmNode) -> bool:
    return "drain" in node.states and node.reason.by == "health"
