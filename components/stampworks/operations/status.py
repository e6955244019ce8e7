"""State of a cluster and of its nodes by its scheduler, as data and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol

from stampworks.plan import ENDS_SOON_DAYS, Ending
from stampworks.text.amounts import counted
from stampworks.text.reasons import DrainReason

Verdict = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class StatusTable:
    """A table for the terminal."""

    header: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]


class ClusterStatus(Protocol):
    """The state of a cluster: a dataclass with all answers of its scheduler."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def cluster(self) -> str:
        """Name of the cluster."""

    @property
    def cloud(self) -> str:
        """Cloud of the cluster."""

    @property
    def verdict(self) -> Verdict:
        """Pass when every planned node is there and works."""

    @property
    def why(self) -> tuple[str, ...]:
        """Return the reasons why the verdict is not pass, one sentence each."""

    @property
    def endings(self) -> tuple[Ending, ...]:
        """Capacity that nodes are in and that ends."""

    @property
    def scheduling_only(self) -> tuple[str, ...]:
        """Pools that are declared and not there on purpose, a sentence each."""

    def tables(self) -> Sequence[StatusTable]:
        """Return the tables that `stampworks status` prints."""


@dataclass(frozen=True)
class NodesStatus:
    """The state of some nodes."""

    nodes: Sequence[Any]
    """Dataclasses with all answers of the scheduler."""
    verdicts: Sequence[Verdict]
    table: StatusTable
    remarks: Sequence[str] = ()


def ending_sentence(ending: Ending, now: datetime) -> str:
    """Return a warning about an end that is near or unknown."""
    what = f"{ending.group}: its nodes go with {ending.reservation}"
    if not ending.at:
        return f"warning: {what}, and when that ends is unknown: {ending.why}"
    left = datetime.fromisoformat(ending.at) - now
    if left <= timedelta():
        return f"warning: {what}, which ended at {ending.at}"
    hours = int(left.total_seconds() // 3600)
    within = counted(hours // 24, "day") if hours >= 48 else counted(hours, "hour")
    said = f"{what}, which ends at {ending.at}, in {within}"
    return f"warning: {said}: save the state of running jobs" if left <= timedelta(days=ENDS_SOON_DAYS) else said


def holder(reason: DrainReason) -> str:
    """Return the holder of a node, in few words."""
    if reason.by == "person":
        return reason.who
    who = f" ({reason.who})" if reason.who and reason.who != reason.by else ""
    holders = {"stampworks": "an up", "health": "the health check", "proof": "its proof", "cloud": "its cloud"}
    return holders.get(reason.by, "Slurm") + who
