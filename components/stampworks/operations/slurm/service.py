"""Nodes of a Slurm in and out of service, as rolls, proofs and people ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stampworks.operations.drain import DRAINED, Progress
from stampworks.operations.ground import NodeStanding
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm import nodes
from stampworks.plan import Plan, Roster
from stampworks.text.reasons import DrainReason


class SlurmService:
    """The service of a cluster whose scheduler is Slurm."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def look(self) -> dict[str, NodeStanding]:
        """Return whether each node runs jobs and takes new ones."""
        found = slurm.look(self._roster)
        busy = nodes.busy_nodes(found.jobs)
        return {name: nodes.standing(node, busy.get(name, "")) for name, node in found.nodes.items()}

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        """Return the reason that keeps jobs from each of these nodes; None if there is none."""
        return nodes.held(self._roster, names)

    def requeue(self, names: Sequence[str]) -> None:
        """Requeue the jobs on these nodes."""
        nodes.requeue(self._roster, names)

    def drain(self, plan: Plan, names: Sequence[str], reason: DrainReason) -> None:
        """Drain nodes for a user; their jobs continue."""
        nodes.drain(plan, self._roster, names, reason)

    def give_back(self, plan: Plan, names: Sequence[str], force: bool = False) -> None:
        """Resume nodes. `force` includes nodes that a check or an `up` holds."""
        nodes.give_back(plan, self._roster, names, force)

    def wait_until_free(
        self,
        names: Sequence[str],
        timeout_minutes: float,
        progress: Progress,
        poll_s: float = 1.0,
        else_: str = DRAINED,
    ) -> None:
        """Wait until no jobs run on these nodes. Raise OperationError after the time limit."""
        nodes.wait_until_free(self._roster, names, timeout_minutes, progress, poll_s, else_)

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """Drain nodes for the toolkit."""
        nodes.hold(self._roster, reasons)

    def give_back_own(self, names: Iterable[str]) -> None:
        """Resume the nodes that the toolkit itself holds."""
        nodes.give_back_own(self._roster, names)

    def await_answers(self, names: Sequence[str], limit_s: float, progress: Progress) -> None:
        """Wait until these nodes answer the restarted controller."""
        slurm.answered(self._roster, names, limit_s, progress)

    def take_in(self, plan: Plan, names: Sequence[str], kept: Mapping[str, DrainReason], progress: Progress) -> None:
        """Do nothing: Slurm knows a node by name, and its state also holds for a new machine."""
