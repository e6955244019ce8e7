"""What runs the jobs: its queues, who may use them, and what a Kubernetes is extended by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import FIRST, IDENTITY, RELEASE, UNORDERED, WORDS
from stampworks.plan.traits import SchedulerKind, Traits, traits_of

STATE_DIRECTORY = "/var/lib/stampworks/state"
"""Where the controller has the volume with what only the scheduler knows."""

ACCOUNTING_DATABASE = "slurm_acct_db"
"""Where slurmdbd has its tables."""

PROOF_TAINT = "stampworks/proof"
"""Of nodes that a proof has for itself."""

UNPROVEN_TAINT = "stampworks/unproven"
"""Of nodes of a Kubernetes that take no pods before they have passed."""

UNPROVEN_AGAIN = "again"
"""The value of that taint on a node that has passed, and was started again since."""

WORKLOADS_IMAGE = "localhost/stampworks/workloads:1"
"""What pods of bundled workloads start from, on nodes that bring the programs themselves."""

ACCELERATOR = "nvidia.com/gpu"
"""The only device of accelerators that quotas, runs and proofs of a Kubernetes count."""

PROOF_NAMESPACE = "stampworks-proof"
"""Of what measures the nodes of a Kubernetes: it is in their network, and may have to enter them."""

BUCKETS_NAMESPACE = "mount-s3"
"""Of the pods by which the driver of buckets mounts them."""

EVERYBODY = "jobs"
"""The namespace of all who have jobs in a Kubernetes, where no account is declared."""

Preemption = Literal["off", "requeue", "cancel"]


@dataclass(frozen=True)
class Queue:
    """A partition of Slurm, a LocalQueue of Kubernetes."""

    name: str
    pools: tuple[str, ...] = field(metadata=UNORDERED)
    default: bool
    time_limit_minutes: int
    """0 means no limit."""
    priority: str
    """Name of the priority its jobs get when they ask for none; empty for none."""


@dataclass(frozen=True)
class Priority:
    """A QOS of Slurm, a WorkloadPriorityClass of Kubernetes."""

    name: str
    weight: int
    preempts: tuple[str, ...] = field(metadata=UNORDERED)


@dataclass(frozen=True)
class Account:
    name: str
    users: tuple[str, ...] = field(metadata=UNORDERED)
    share: int
    accelerators_max: int
    """0 means no limit."""


def own_nodes(accounts: Sequence[Account], count: int) -> dict[str, int]:
    """How many of so many nodes are each account's own, by its name. Whole ones, for gangs take whole ones."""
    whole = sum(each.share for each in accounts)
    parts = {each.name: divmod(count * each.share, whole) for each in accounts}
    found = {name: nodes for name, (nodes, _) in parts.items()}
    # of two that would have half of it, it goes to the one that has less
    for name in sorted(parts, key=lambda each: (-parts[each][1], found[each]))[: count - sum(found.values())]:
        found[name] += 1
    return found


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    accounts: tuple[str, ...] = field(metadata=FIRST)
    """The first one is charged where a job names none."""
    groups: tuple[str, ...] = field(default=(), metadata=UNORDERED)
    keys: tuple[str, ...] = field(default=(), metadata=UNORDERED)
    """Public ssh keys, each one line."""
    home: str = ""
    """On storage that all nodes see; empty where each node has one of its own."""


@dataclass(frozen=True)
class Team:
    """People who share files."""

    name: str
    gid: int
    folder: str = ""
    """Theirs on storage that all nodes see; empty where there is none."""


@dataclass(frozen=True)
class Image:
    part: str
    """Of an add-on's values, the one that names it."""
    name: str
    tag: str
    digest: str
    """Empty where no source says it."""


@dataclass(frozen=True)
class AddOn:
    """What a Kubernetes is extended by, at the version of the release."""

    name: str
    what: str = field(metadata=WORDS)
    by: Literal["helm", "cloud", "hand"]
    """Who installs it: a release of Helm of ours, the cloud, or whoever runs the cluster."""
    chart: str = field(metadata=RELEASE)
    """Empty where nobody publishes one."""
    repository: str = field(metadata=RELEASE)
    version: str = field(metadata=RELEASE)
    """Empty where the cloud has it, and says which one goes with its Kubernetes: then it is one of the parts."""
    namespace: str
    needs: tuple[str, ...]
    """Those of the others that it comes after."""
    images: tuple[Image, ...] = field(metadata=RELEASE)
    driver: str = field(default="", metadata=RELEASE)
    """The version of the driver that the GPU operator brings; empty where nodes have one."""
    mig_strategy: str = ""
    mig_profile: str = ""
    """Into which parts it divides accelerators; empty where it leaves them whole."""


@dataclass(frozen=True)
class Part:
    """Of a Kubernetes that a cloud runs, what has versions of its own beside the server's."""

    name: str
    version: str = field(metadata=RELEASE)
    """Empty until it was looked up."""


@dataclass(frozen=True)
class Scheduler:
    kind: SchedulerKind
    accounting: bool
    preemption: Preemption
    topology: Literal["flat", "tree", "block"]
    block_nodes: int
    """Nodes in a base block when topology is block, else 0."""
    drain_timeout_minutes: int
    idle_minutes: int
    """After how long without a job a node ends that has started with the work."""
    protect: bool
    """Whether what it keeps may only be deleted after an explicit word."""
    state_directory: str
    """Where it keeps what only it knows: a volume apart from the controller's disk."""
    queues: tuple[Queue, ...] = field(metadata=UNORDERED)
    priorities: tuple[Priority, ...] = field(metadata=UNORDERED)
    accounts: tuple[Account, ...] = field(metadata=UNORDERED)
    database: Literal["head", "managed"] = "head"
    """Who runs the one of the accounting: managed is the cloud."""
    addons: tuple[AddOn, ...] = ()
    """Of a Kubernetes, in the order in which they are installed."""
    parts: tuple[Part, ...] = ()
    """Of a Kubernetes that a cloud runs, by name."""
    workloads_image: str = field(default="", metadata=RELEASE)
    """What proofs and runs start from; empty where nodes have the programs themselves."""
    api_from: tuple[str, ...] = field(default=(), metadata=UNORDERED | IDENTITY)
    """The ranges of the internet from which the server of a cloud's Kubernetes answers; without any it has no public
    address."""
    admins: tuple[str, ...] = field(default=(), metadata=UNORDERED | IDENTITY)
    """Who may do everything in it beside whoever has made it, as the cloud calls them."""

    @property
    def traits(self) -> Traits:
        return traits_of(self.kind)

    @property
    def queue_directory(self) -> str:
        """Where slurmctld keeps the queue."""
        return f"{self.state_directory}/slurmctld"
