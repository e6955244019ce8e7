"""Nodes of a Kubernetes in and out of service, as rolls, proofs and people ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stampworks.operations.drain import DRAINED, Progress
from stampworks.operations.ground import NodeStanding
from stampworks.operations.kubernetes import nodes
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.operations.members import joined
from stampworks.plan import Plan
from stampworks.schedulers import kubernetes as scheduling
from stampworks.text.reasons import DrainReason


class KubernetesService:
    """The service of a cluster whose scheduler is Kubernetes."""

    def __init__(self, server: KubernetesApi) -> None:
        self._server = server

    def look(self) -> dict[str, NodeStanding]:
        """Return whether each node runs pods and takes new ones."""
        known, busy = self._server.nodes(), nodes.runs(self._server)
        return {name: nodes.standing(node, busy.get(name, ())) for name, node in known.items()}

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        """Return the reason that keeps pods from each of these nodes; None if there is none."""
        known = self._server.nodes()
        return {name: nodes.held(known[name]) for name in names if name in known}

    def requeue(self, names: Sequence[str]) -> None:
        """Stop the runs on these nodes; the queue starts them again."""
        nodes.requeue(self._server, names)

    def drain(self, plan: Plan, names: Sequence[str], reason: DrainReason) -> None:
        """Cordon nodes for a user; their pods continue."""
        nodes.drain(self._server, plan, names, reason)

    def give_back(self, plan: Plan, names: Sequence[str], force: bool = False) -> None:
        """Uncordon nodes. `force` includes nodes that a check or an `up` holds."""
        nodes.give_back(self._server, plan, names, force)

    def wait_until_free(
        self,
        names: Sequence[str],
        timeout_minutes: float,
        progress: Progress,
        poll_s: float = 1.0,
        else_: str = DRAINED,
    ) -> None:
        """Wait until no pods of users run on these nodes. Raise OperationError after the time limit."""
        nodes.wait_until_free(self._server, names, timeout_minutes, progress, poll_s, else_)

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """Cordon nodes for the toolkit."""
        nodes.hold(self._server, reasons)

    def give_back_own(self, names: Iterable[str]) -> None:
        """Uncordon the nodes that the toolkit itself holds."""
        nodes.give_back_own(self._server, names)

    def await_answers(self, names: Sequence[str], limit_s: float, progress: Progress) -> None:
        """Do nothing: no roll restarts the scheduler."""

    def take_in(self, plan: Plan, names: Sequence[str], kept: Mapping[str, DrainReason], progress: Progress) -> None:
        """Do nothing: to Kubernetes a new machine is another node, held only for its proof."""
        labels = scheduling.node_labels(plan)
        for pool in plan.pools:
            own = [node.name for node in pool.nodes if node.name in names]
            joined(plan.cloud).take_in(plan, pool, own, labels, scheduling.capacity(pool), progress)
        nodes.hold(self._server, kept)
