"""The plan as a whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from stampworks.plan.marks import FIRST, IDENTITY, NUMBERED, RELEASE, UNORDERED, WORDS, common
from stampworks.plan.network import Fabric, Network
from stampworks.plan.nodes import Group
from stampworks.plan.release import Release
from stampworks.plan.running import Budget, Extras, Logs, Proof, Roll, Tag
from stampworks.plan.scheduler import Scheduler, Team, User
from stampworks.plan.storage import Storage
from stampworks.plan.training import Training

PLAN_VERSION = 1


@dataclass(frozen=True)
class Expectation:
    """A predicted number with its derivation."""

    name: str
    value: float
    unit: str
    why: str = field(metadata=WORDS)


@dataclass(frozen=True)
class Reason:
    """Why a derived value is what it is."""

    path: str
    why: str


@dataclass(frozen=True)
class Plan:
    version: int
    name: str = field(metadata=IDENTITY)
    cloud: str
    region: str = field(metadata=IDENTITY)
    """Empty where the cloud has none."""
    release: Release = field(metadata=RELEASE)
    network: Network
    fabric: Fabric
    groups: tuple[Group, ...] = field(metadata=NUMBERED)
    """The controller first, then the pools as declared, then the login nodes."""
    storage: tuple[Storage, ...] = field(metadata=FIRST)
    """Runs have their folders on the first one."""
    scheduler: Scheduler
    users: tuple[User, ...] = field(metadata=UNORDERED)
    tags: tuple[Tag, ...] = field(metadata=UNORDERED | IDENTITY)
    budget: Budget = field(metadata=IDENTITY)
    logs: Logs
    extras: Extras
    proof: Proof
    roll: Roll
    training: Training
    expectations: tuple[Expectation, ...] = field(metadata=UNORDERED)
    reasons: tuple[Reason, ...] = field(metadata=WORDS)
    teams: tuple[Team, ...] = field(default=(), metadata=UNORDERED)
    """The declared groups of users."""

    @property
    def controller(self) -> Group:
        return next(group for group in self.groups if group.role == "controller")

    @property
    def pools(self) -> tuple[Group, ...]:
        """Those whose nodes run jobs."""
        return tuple(group for group in self.groups if group.role == "worker")

    @property
    def running(self) -> tuple[Group, ...]:
        """Those that have nodes at all, in their order."""
        return tuple(group for group in self.groups if group.role != "scheduling only")

    @property
    def stamped(self) -> tuple[Group, ...]:
        """Those whose nodes are made: of a Kubernetes the cloud has the control plane, and nobody logs in."""
        return self.pools if self.scheduler.traits.control_plane else self.running

    @property
    def managed(self) -> bool:
        """Whether the cloud runs its Kubernetes and makes its nodes: no playbook does, and a plan names none."""
        return self.scheduler.traits.runs_pods and any(group.launch for group in self.groups)

    @property
    def login(self) -> tuple[Group, ...]:
        """The group of login nodes, where there are some."""
        return tuple(group for group in self.groups if group.role == "login")

    @property
    def scheduling_only(self) -> tuple[Group, ...]:
        """Pools that only the scheduler knows: it places jobs on their nodes, which are nowhere."""
        return tuple(group for group in self.groups if group.role == "scheduling only")


def fingerprint(plan: Plan) -> str:
    """The digest of what two stamps of one cluster have in common, and that changes when anything else is declared."""
    text = json.dumps(common(plan), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
