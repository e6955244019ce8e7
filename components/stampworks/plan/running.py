"""What else a cluster that runs has: a budget, logs, a proof, rolls, and what its user adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import IDENTITY, UNORDERED

Level = Literal["none", "quick", "standard", "burn-in"]
RollJobs = Literal["wait", "requeue"]

BUDGET_MINUTES: Mapping[Level, int] = {"none": 10, "quick": 10, "standard": 10, "burn-in": 240}
"""How long a proof may take where nobody says it."""


@dataclass(frozen=True)
class Tag:
    """On all that a cloud makes for a cluster."""

    name: str
    value: str


@dataclass(frozen=True)
class Budget:
    """What a cluster may cost, and who is told in time."""

    monthly_usd: int
    """0 means no limit."""
    notify: tuple[str, ...] = field(metadata=UNORDERED)
    """Addresses for mail."""


@dataclass(frozen=True)
class Logs:
    """What nodes say, kept by the cloud."""

    days: int
    """For how long; 0 where nobody keeps it."""


def log_group(cluster: str) -> str:
    """What the cloud calls all that the nodes of a cluster say."""
    return f"/stampworks/{cluster}/nodes"


@dataclass(frozen=True)
class OwnRole:
    """An Ansible role that is not ours."""

    name: str
    path: str = field(metadata=IDENTITY)
    """Its folder, from the folder of the declaration: where it lies says nothing about the cluster."""
    groups: tuple[str, ...] = field(metadata=UNORDERED)
    variables: str
    """A JSON object: data of any shape, which no type of a plan could hold."""


@dataclass(frozen=True)
class OwnCheck:
    """A check of a node that is not ours."""

    name: str
    path: str = field(metadata=IDENTITY)
    """Its file, as above."""
    pools: tuple[str, ...] = field(metadata=UNORDERED)
    timeout_seconds: int


@dataclass(frozen=True)
class Extras:
    """What the user adds to a cluster."""

    roles: tuple[OwnRole, ...]
    """In the order in which they run."""
    checks: tuple[OwnCheck, ...] = field(metadata=UNORDERED)


@dataclass(frozen=True)
class Proof:
    """How the finished cluster is measured against its plan before anything may rely on it."""

    level: Level
    budget_minutes: int
    """What has not been measured by then is unknown."""
    failed_nodes_max: int
    """As many nodes may be held back before the whole counts as failed."""


@dataclass(frozen=True)
class Roll:
    """How nodes that run are made anew: in waves, each of which is proven before the next one begins."""

    unavailable_max: tuple[tuple[str, int], ...] = field(metadata=UNORDERED)
    """Of each pool, how many of its nodes may be out of service at once because of it."""
    jobs: RollJobs
    """Jobs on a node whose turn has come: waited for, or started anew elsewhere where they allow it."""
