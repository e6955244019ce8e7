"""Nodes in and out of service, in the same words whichever scheduler runs the jobs: what a roll asks of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stampworks.operations.drain import AS_BEFORE, give_back_own, held, hold, requeue, wait_until_free
from stampworks.operations.errors import OperationError
from stampworks.operations.ground import Standing
from stampworks.operations.kubernetes import nodes as kubernetes_nodes
from stampworks.operations.kubernetes.client import Server
from stampworks.operations.members import joined
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm.ground import busy_nodes, standing
from stampworks.plan import Plan, Roster
from stampworks.schedulers import kubernetes as scheduling
from stampworks.text.reasons import DrainReason

Progress = Callable[[str], None]
_TIMES = 5
"""How often nodes are held that are free again when their jobs are through. Slurm forgets once, as it switches one off;
who is free each time, somebody gives back."""


class Service(Protocol):
    def look(self) -> dict[str, Standing]:
        """All nodes that the scheduler knows."""

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        """Those of these nodes that the scheduler knows, each with who keeps jobs from it."""

    def requeue(self, names: Sequence[str]) -> None:
        """Has jobs that may be requeued start anew elsewhere."""

    def wait_until_free(
        self, names: Sequence[str], timeout_minutes: float, progress: Progress, poll_s: float, else_: str
    ) -> None:
        """Returns once no job runs on these nodes; `else_` says what becomes of them when time is up."""

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """They take no jobs, each for its reason, whatever kept jobs from them before."""

    def give_back_own(self, names: Iterable[str]) -> None:
        """Those take jobs again that the toolkit holds itself, and no person or proof."""

    def await_answers(self, names: Sequence[str], limit_s: float, progress: Progress) -> None:
        """Returns once none of these is silent, or when the time is up."""

    def take_in(self, plan: Plan, names: Sequence[str], kept: Mapping[str, DrainReason], progress: Progress) -> None:
        """Nodes that have been made anew and configured are known as what they are; `kept` still holds."""


def vacate(
    service: Service,
    reasons: Mapping[str, DrainReason],
    timeout_minutes: float,
    progress: Progress,
    poll_s: float = 1.0,
    again: bool = False,
) -> None:
    """Nodes that will go take no more jobs; returns once none runs on them. Jobs that may start again elsewhere do,
    where asked for.

    When it cannot get there, for time, for an interrupt or because the scheduler stopped answering, the nodes it held
    take jobs again: a change that failed leaves the cluster as it was. What others hold keeps their reason.
    """
    known = service.held(list(reasons))
    own = [name for name, reason in known.items() if reason is None or reason.by == "stampworks"]
    try:
        service.hold({name: reasons[name] for name in own})
        if again:
            service.requeue(list(known))
        service.wait_until_free(list(known), timeout_minutes, progress, poll_s, AS_BEFORE)
    except BaseException:
        with contextlib.suppress(OperationError):
            service.give_back_own(own)
        raise


def vacate_for_good(
    service: Service, reasons: Mapping[str, DrainReason], timeout_minutes: float, progress: Progress
) -> None:
    """The same of nodes that Slurm may switch off meanwhile: it forgets with that what kept jobs from them."""

    def look(line: str) -> None:
        service.hold({name: reasons[name] for name, reason in service.held(list(reasons)).items() if reason is None})
        progress(line)

    for _ in range(_TIMES):
        vacate(service, reasons, timeout_minutes, look)
        free = [name for name, reason in service.held(list(reasons)).items() if reason is None]
        if not free:
            return
    service.give_back_own(reasons)
    what = f"{', '.join(free)} did not stay held, {_TIMES} times: {AS_BEFORE}"
    raise OperationError(what, "see who gives them back, and run it again")


def service_of(plan: Plan, roster: Roster) -> Service:
    return KubernetesService(Server.of(plan)) if plan.scheduler.kind == "kubernetes" else SlurmService(roster)


class SlurmService:
    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def look(self) -> dict[str, Standing]:
        found = slurm.look(self._roster)
        busy = busy_nodes(found.jobs)
        return {name: standing(node, busy.get(name, "")) for name, node in found.nodes.items()}

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        return held(self._roster, names)

    def requeue(self, names: Sequence[str]) -> None:
        requeue(self._roster, names)

    def wait_until_free(
        self, names: Sequence[str], timeout_minutes: float, progress: Progress, poll_s: float, else_: str
    ) -> None:
        wait_until_free(self._roster, names, timeout_minutes, progress, poll_s, else_)

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        hold(self._roster, reasons)

    def give_back_own(self, names: Iterable[str]) -> None:
        give_back_own(self._roster, names)

    def await_answers(self, names: Sequence[str], limit_s: float, progress: Progress) -> None:
        slurm.answered(self._roster, names, limit_s, progress)

    def take_in(self, plan: Plan, names: Sequence[str], kept: Mapping[str, DrainReason], progress: Progress) -> None:
        pass  # Slurm knows a node by its name, and what it said of the old one holds for the new one


class KubernetesService:
    def __init__(self, server: Server) -> None:
        self._server = server

    def look(self) -> dict[str, Standing]:
        nodes, busy = self._server.nodes(), kubernetes_nodes.runs(self._server)
        return {name: kubernetes_nodes.standing(node, busy.get(name, ())) for name, node in nodes.items()}

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        known = self._server.nodes()
        return {name: kubernetes_nodes.held(known[name]) for name in names if name in known}

    def requeue(self, names: Sequence[str]) -> None:
        kubernetes_nodes.requeue(self._server, names)

    def wait_until_free(
        self, names: Sequence[str], timeout_minutes: float, progress: Progress, poll_s: float, else_: str
    ) -> None:
        kubernetes_nodes.wait_until_free(self._server, names, timeout_minutes, progress, poll_s, else_)

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        kubernetes_nodes.hold(self._server, reasons)

    def give_back_own(self, names: Iterable[str]) -> None:
        kubernetes_nodes.give_back_own(self._server, names)

    def await_answers(self, names: Sequence[str], limit_s: float, progress: Progress) -> None:
        pass  # no roll starts the scheduler anew

    def take_in(self, plan: Plan, names: Sequence[str], kept: Mapping[str, DrainReason], progress: Progress) -> None:
        """To Kubernetes it is another node, that nobody has held yet but for its proof."""
        labels = scheduling.node_labels(plan)
        for pool in plan.pools:
            own = [node.name for node in pool.nodes if node.name in names]
            joined(plan.cloud).take_in(plan, pool, own, labels, scheduling.capacity(pool), progress)
        kubernetes_nodes.hold(self._server, kept)
