"""The plan as a whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from stampworks.plan.hosts import Hosts
from stampworks.plan.marks import FIRST, IDENTITY, NUMBERED, RELEASE, UNORDERED, WORDS, common
from stampworks.plan.network import AccountTerms, Fabric, Network
from stampworks.plan.nodes import Group
from stampworks.plan.release import Release, Software
from stampworks.plan.running import Budget, Extras, Logs, Proof, Roll, Tag
from stampworks.plan.scheduler import Directory, Scheduler, Team, User
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
    """The explanation of a derived value."""

    path: str
    why: str


@dataclass(frozen=True)
class Plan:
    """All decisions about a cluster; everything downstream reads this alone."""

    version: int
    name: str = field(metadata=IDENTITY)
    cloud: str
    region: str = field(metadata=IDENTITY)
    """Region; empty if the cloud has none."""
    release: Release = field(metadata=RELEASE)
    network: Network
    fabric: Fabric
    groups: tuple[Group, ...] = field(metadata=NUMBERED)
    """The controller first, then the pools as declared, then the login nodes."""
    storage: tuple[Storage, ...] = field(metadata=FIRST)
    """Storage; the first one has the folders of runs."""
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
    directory: Directory | None = None
    """Directory of additional users; None without one."""
    account: AccountTerms = field(default=AccountTerms(), metadata=IDENTITY)
    image_parts: tuple[Software, ...] = field(default=(), metadata=RELEASE)
    """Parts of the vendor's image for nodes with such hardware, by role. Nodes are compared with them, and none is
    installed. Empty if no node boots such an image."""
    hosts: Hosts | None = field(default=None, metadata=IDENTITY)
    """Existing machines of the cluster; None if the cloud creates them."""

    @property
    def controller(self) -> Group:
        """The group of the head; every plan has one."""
        return next(group for group in self.groups if group.role == "controller")

    @property
    def pools(self) -> tuple[Group, ...]:
        """Return the groups whose nodes run jobs."""
        return tuple(group for group in self.groups if group.role == "worker")

    @property
    def running(self) -> tuple[Group, ...]:
        """Return the groups that have real nodes, in their order."""
        return tuple(group for group in self.groups if group.role != "scheduling only")

    @property
    def stamped(self) -> tuple[Group, ...]:
        """Return the groups whose nodes are created. A Kubernetes has its own control plane and no login nodes."""
        return self.pools if self.scheduler.traits.control_plane else self.running

    def boots_vendor_image(self, group: Group) -> bool:
        return any(part.name in group.hardware for part in self.image_parts)

    @property
    def managed(self) -> bool:
        """Whether the cloud runs Kubernetes and creates its nodes. No playbook configures them, and the plan does not
        name them."""
        return self.scheduler.traits.runs_pods and any(group.launch for group in self.groups)

    @property
    def login(self) -> tuple[Group, ...]:
        """Return the group of login nodes, if any, as a tuple."""
        return tuple(group for group in self.groups if group.role == "login")

    @property
    def scheduling_only(self) -> tuple[Group, ...]:
        """Return the pools that only the scheduler knows: it places jobs on their nodes, which do not exist."""
        return tuple(group for group in self.groups if group.role == "scheduling only")


def fingerprint(plan: Plan) -> str:
    """Return a digest that all stamps of a cluster share and that changes with any other part of the declaration."""
    text = json.dumps(common(plan), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
