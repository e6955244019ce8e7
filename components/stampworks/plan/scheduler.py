"""The scheduler: its queues and users, and the add-ons of a Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import FIRST, IDENTITY, RELEASE, UNORDERED, WORDS
from stampworks.plan.traits import SchedulerKind, Traits, traits_of

STATE_DIRECTORY = "/var/lib/stampworks/state"
"""Mount point, on the controller, of the volume for state that only the scheduler has."""

ACCOUNTING_DATABASE = "slurm_acct_db"
"""Name of the database of slurmdbd."""

PROOF_TAINT = "stampworks/proof"
"""Taint of nodes that are reserved for a proof."""

UNPROVEN_TAINT = "stampworks/unproven"
"""Taint of Kubernetes nodes that accept no pods before they have passed a proof."""

UNPROVEN_AGAIN = "again"
"""The value of that taint on a node that has passed and was restarted since."""

WORKLOADS_IMAGE = "localhost/stampworks/workloads:1"
"""Image of the pods of bundled workloads, on nodes that contain the programs themselves."""

ACCELERATOR = "nvidia.com/gpu"
"""The only accelerator resource that quotas, runs and proofs of a Kubernetes count."""

PROOF_NAMESPACE = "stampworks-proof"
"""Namespace of the pods that measure Kubernetes nodes. They use the host network and may have to enter the nodes."""

BUCKETS_NAMESPACE = "mount-s3"
"""Namespace of the pods by which the bucket driver mounts buckets."""

EVERYBODY = "jobs"
"""Namespace for the jobs of all users of a Kubernetes when no account is declared."""

Preemption = Literal["off", "requeue", "cancel"]


@dataclass(frozen=True)
class Queue:
    """A partition of Slurm, or a LocalQueue of Kubernetes."""

    name: str
    pools: tuple[str, ...] = field(metadata=UNORDERED)
    default: bool
    time_limit_minutes: int
    """0 means no limit."""
    priority: str
    """Name of the default priority of its jobs; empty for none."""


@dataclass(frozen=True)
class Priority:
    """A QOS of Slurm, or a WorkloadPriorityClass of Kubernetes."""

    name: str
    weight: int
    preempts: tuple[str, ...] = field(metadata=UNORDERED)


@dataclass(frozen=True)
class Account:
    """A group of users that share a quota."""

    name: str
    users: tuple[str, ...] = field(metadata=UNORDERED)
    share: int
    accelerators_max: int
    """0 means no limit."""


def own_nodes(accounts: Sequence[Account], count: int) -> dict[str, int]:
    """Divide `count` nodes among the accounts by their shares. Each account gets whole nodes, because gangs take whole
    nodes."""
    whole = sum(each.share for each in accounts)
    parts = {each.name: divmod(count * each.share, whole) for each in accounts}
    found = {name: nodes for name, (nodes, _) in parts.items()}
    # The extra nodes go to the largest remainders; among equal ones, to the account with fewer nodes.
    for name in sorted(parts, key=lambda each: (-parts[each][1], found[each]))[: count - sum(found.values())]:
        found[name] += 1
    return found


@dataclass(frozen=True)
class User:
    """A user of the cluster."""

    name: str
    uid: int
    accounts: tuple[str, ...] = field(metadata=FIRST)
    """Accounts of the user; a job without an account is charged to the first one."""
    groups: tuple[str, ...] = field(default=(), metadata=UNORDERED)
    keys: tuple[str, ...] = field(default=(), metadata=UNORDERED)
    """Public ssh keys, each one line."""
    home: str = ""
    """Path on storage that all nodes share; empty when each node has its own homes."""
    keyless: bool = False
    """Whether an empty list of keys is declared: then no key logs in as this user, not even one in the user's home."""


@dataclass(frozen=True)
class Team:
    """Users who share files."""

    name: str
    gid: int
    folder: str = ""
    """Folder of the team on storage that all nodes mount; empty if there is none."""


@dataclass(frozen=True)
class Directory:
    """An LDAP server with additional users and groups. Nodes query it through SSSD."""

    uri: str
    base: str
    start_tls: bool
    """Whether a connection begins TLS. With an ldaps:// URI it is TLS from the start."""
    ca: str
    """Certificates of the server's authority, in PEM; empty for those that nodes trust."""
    bind: str
    """The entry as which nodes ask, with a password that is no part of a plan; empty for none."""
    group_members: Literal["names", "entries"]
    access_groups: tuple[str, ...] = field(metadata=UNORDERED)
    """Groups whose members may log in; empty for all users."""
    account: str
    """The account of jobs of members of these; empty for none."""
    id_min: int
    id_max: int
    homes: str
    """The folder of their homes, on storage that all nodes see."""


@dataclass(frozen=True)
class Image:
    """A container image of an add-on."""

    part: str
    """The part of an add-on's values that names the image."""
    name: str
    tag: str
    digest: str
    """Empty when no source publishes it."""


@dataclass(frozen=True)
class AddOn:
    """An extension of Kubernetes, at the version of the release."""

    name: str
    what: str = field(metadata=WORDS)
    by: Literal["helm", "cloud", "hand"]
    """The installer: a Helm release of ours, the cloud, or the administrator of the cluster."""
    chart: str = field(metadata=RELEASE)
    """Empty when no chart is published."""
    repository: str = field(metadata=RELEASE)
    version: str = field(metadata=RELEASE)
    """Version; empty if the cloud chooses one that fits its Kubernetes: then the add-on is one of the parts."""
    namespace: str
    needs: tuple[str, ...]
    """Names of the add-ons that must be installed before it."""
    images: tuple[Image, ...] = field(metadata=RELEASE)
    driver: str = field(default="", metadata=RELEASE)
    """Driver version that the GPU operator installs; empty when nodes have a driver."""
    mig_strategy: str = ""
    mig_profile: str = ""
    """MIG profile into which it divides accelerators; empty when it leaves them whole."""


@dataclass(frozen=True)
class Part:
    """A component of a managed Kubernetes that has its own version."""

    name: str
    version: str = field(metadata=RELEASE)
    """Empty until it was looked up."""


@dataclass(frozen=True)
class Scheduler:
    """Queues, priorities, accounts and topology of the cluster's scheduler."""

    kind: SchedulerKind
    accounting: bool
    preemption: Preemption
    topology: Literal["flat", "tree", "block"]
    block_nodes: int
    """Nodes in a base block when topology is block, else 0."""
    drain_timeout_minutes: int
    idle_minutes: int
    """Minutes without a job after which an elastic node ends."""
    protect: bool
    """Whether deleting the scheduler's state requires explicit permission."""
    state_directory: str
    """Directory of the state that only the scheduler has, on a volume separate from the controller's disk."""
    queues: tuple[Queue, ...] = field(metadata=UNORDERED)
    priorities: tuple[Priority, ...] = field(metadata=UNORDERED)
    accounts: tuple[Account, ...] = field(metadata=UNORDERED)
    database: Literal["head", "managed"] = "head"
    """Host of the accounting database: `managed` means that the cloud runs it."""
    addons: tuple[AddOn, ...] = ()
    """Kubernetes add-ons, in installation order."""
    parts: tuple[Part, ...] = ()
    """Components of a managed Kubernetes, by name."""
    workloads_image: str = field(default="", metadata=RELEASE)
    """Image of proofs and runs; empty when nodes contain the programs themselves."""
    api_from: tuple[str, ...] = field(default=(), metadata=UNORDERED | IDENTITY)
    """Internet ranges from which the API server of a managed Kubernetes accepts requests. Without any, the server has
    no public address."""
    admins: tuple[str, ...] = field(default=(), metadata=UNORDERED | IDENTITY)
    """Administrators of the managed Kubernetes besides its creator, as the cloud names them."""

    @property
    def traits(self) -> Traits:
        """Properties that all schedulers of this kind share."""
        return traits_of(self.kind)

    @property
    def queue_directory(self) -> str:
        """Return the directory in which slurmctld keeps the queue."""
        return f"{self.state_directory}/slurmctld"
