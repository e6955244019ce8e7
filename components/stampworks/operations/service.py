"""Drain and return nodes with the same words for each scheduler: part of its port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stampworks.operations.drain import AS_BEFORE, DRAINED
from stampworks.operations.errors import OperationError
from stampworks.operations.ground import NodeStanding
from stampworks.plan import Plan
from stampworks.text.reasons import DrainReason

Progress = Callable[[str], None]
_TIMES = 5
"""Number of times that nodes are held again. Slurm may forget a reason once, when it powers a node down; a node that is
free each time is being resumed by a user."""


class Service(Protocol):
    """Nodes in and out of service."""

    def look(self) -> dict[str, NodeStanding]:
        """All nodes that the scheduler knows."""

    def held(self, names: Sequence[str]) -> dict[str, DrainReason | None]:
        """Return the nodes that the scheduler knows, each with the reason that keeps jobs from it."""

    def requeue(self, names: Sequence[str]) -> None:
        """Requeue jobs that allow it."""

    def drain(self, plan: Plan, names: Sequence[str], reason: DrainReason) -> None:
        """Drain nodes of the plan; their jobs continue. Raise InputError for other names."""

    def give_back(self, plan: Plan, names: Sequence[str], force: bool = False) -> None:
        """Resume all of these nodes or none. Nodes that the toolkit holds need force."""

    def wait_until_free(
        self,
        names: Sequence[str],
        timeout_minutes: float,
        progress: Progress,
        poll_s: float = 1.0,
        else_: str = DRAINED,
    ) -> None:
        """Wait until no job runs on these nodes. `else_` is the hint after the time limit."""

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """Hold nodes with a reason each, which replaces earlier reasons."""

    def give_back_own(self, names: Iterable[str]) -> None:
        """Return the nodes that the toolkit itself holds, and no person or proof."""

    def await_answers(self, names: Sequence[str], limit_s: float, progress: Progress) -> None:
        """Wait until all of these answer, or until the time limit."""

    def take_in(self, plan: Plan, names: Sequence[str], kept: Mapping[str, DrainReason], progress: Progress) -> None:
        """Register renewed and configured nodes with the scheduler; reasons in `kept` still hold."""


def vacate(
    service: Service,
    reasons: Mapping[str, DrainReason],
    timeout_minutes: float,
    progress: Progress,
    poll_s: float = 1.0,
    again: bool = False,
) -> None:
    """Drain nodes and wait until no job runs there.

    Requeue jobs that allow it, if requested. After a timeout, an interrupt or a silent scheduler, the nodes that it
    drained take jobs again: a failed change leaves the cluster as it was. Nodes that others hold keep their reason.
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
    """Drain nodes that Slurm may power down meanwhile: it then forgets the reason, so that it is repeated."""

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
    raise OperationError(what, "find the user or program that returns them, and run it again")
