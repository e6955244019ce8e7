"""Other properties of a running cluster: budget, logs, proof, rolls and the user's additions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import IDENTITY, UNORDERED

Level = Literal["none", "quick", "standard", "burn-in"]
RollJobs = Literal["wait", "requeue"]

BUDGET_MINUTES: Mapping[Level, int] = {"none": 10, "quick": 10, "standard": 10, "burn-in": 240}
"""Default time limit of a proof."""


@dataclass(frozen=True)
class Tag:
    """A tag on everything that a cloud creates for a cluster."""

    name: str
    value: str


@dataclass(frozen=True)
class Budget:
    """The cost limit of a cluster, and the people to warn in time."""

    monthly_usd: int
    """0 means no limit."""
    notify: tuple[str, ...] = field(metadata=UNORDERED)
    """Email addresses."""


@dataclass(frozen=True)
class Logs:
    """Logs of the nodes, stored by the cloud."""

    days: int
    """Days of retention; 0 when logs are not stored."""


def log_group(cluster: str) -> str:
    """Return the name of the cloud's log group for the nodes of a cluster."""
    return f"/stampworks/{cluster}/nodes"


@dataclass(frozen=True)
class OwnRole:
    """An Ansible role of the user."""

    name: str
    path: str = field(metadata=IDENTITY)
    """The role's folder, relative to the declaration's folder. Its location says nothing about the cluster."""
    groups: tuple[str, ...] = field(metadata=UNORDERED)
    variables: str
    """A JSON object, because no type of a plan could hold data of any shape."""


@dataclass(frozen=True)
class OwnCheck:
    """A node check of the user."""

    name: str
    path: str = field(metadata=IDENTITY)
    """The check's file, relative to the declaration's folder."""
    pools: tuple[str, ...] = field(metadata=UNORDERED)
    timeout_seconds: int


@dataclass(frozen=True)
class Extras:
    """The user's additions to a cluster."""

    roles: tuple[OwnRole, ...]
    """The user's roles, in the order in which they run."""
    checks: tuple[OwnCheck, ...] = field(metadata=UNORDERED)


@dataclass(frozen=True)
class Proof:
    """The measurement of the finished cluster against its plan, before anything may rely on it."""

    level: Level
    budget_minutes: int
    """Time limit; everything that was not measured by then is unknown."""
    failed_nodes_max: int
    """The number of nodes that may be held back before the whole cluster counts as failed."""


@dataclass(frozen=True)
class Roll:
    """The replacement of running nodes in waves, each of which is proven before the next one begins."""

    unavailable_max: tuple[tuple[str, int], ...] = field(metadata=UNORDERED)
    """Number of nodes of each pool that a roll may take out of service at once."""
    jobs: RollJobs
    """Treatment of jobs on a node to be replaced: wait for them, or requeue those that allow it."""
