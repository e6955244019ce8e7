"""Declared file systems, and the data by which nodes and pods find the storage that a cloud made."""

from __future__ import annotations

from dataclasses import dataclass, field

from stampworks.plan.marks import IDENTITY, RELEASE, UNORDERED


@dataclass(frozen=True)
class Storage:
    """A declared file system, with its performance as far as it is known."""

    name: str
    kind: str
    tier: str
    """Value; empty if not declared, like 0 and none below. That is valid if the catalog has at most one choice."""
    capacity: int
    """Capacity in the unit in which this kind is sold; GiB for most kinds."""
    mbps_per_tib: int
    throughput_mbps: int
    """Throughput of the whole file system, for kinds that sell it separately from capacity."""
    read_cache_gib: int
    metadata_iops: int
    efa: bool
    features: tuple[str, ...] = field(metadata=UNORDERED)
    mount: str
    protect: bool
    repository: str = field(default="", metadata=IDENTITY)
    """Source of the feature data-repository: the name of another file system of this plan, or a location in a
    bucket."""
    expire_days: int = 0
    """Days after which objects of a bucket expire; 0: never."""
    expire_folder: str = ""
    """Folder whose objects expire; empty for the whole bucket."""
    homes: bool = False
    """Whether homes are declared to be here, and not on the first suitable storage."""
    existing: str = field(default="", metadata=IDENTITY)
    """The cloud's name for an existing file system or bucket; empty for one that the cluster creates."""
    driver: str = field(default="", metadata=RELEASE)
    """The cloud's name for the CSI driver that mounts it in pods; empty without a Kubernetes run by the cloud."""

    @property
    def bought(self) -> tuple[str, ...]:
        """List, in words, everything that the vendor may bill besides capacity."""
        amounts = {
            "MB/s a TiB": self.mbps_per_tib,
            "MB/s": self.throughput_mbps,
            "GiB of read cache": self.read_cache_gib,
            "metadata IOPS": self.metadata_iops,
        }
        numbers = (f"{amount} {unit}" for unit, amount in amounts.items() if amount)
        of = {"data-repository": f"data-repository of {self.repository}"}
        features = (of.get(each, each) for each in sorted(self.features))
        return (*numbers, *(["EFA"] if self.efa else []), *features)

    @property
    def expires(self) -> str:
        """Return, in words, which objects of a bucket expire; empty when none do."""
        below = f" below {self.expire_folder}" if self.expire_folder else ""
        return f"objects{below} go after {self.expire_days} days" if self.expire_days else ""


@dataclass(frozen=True)
class Mount:
    """A mount on a node of storage that was created separately."""

    source: str
    path: str
    type: str = "none"
    options: str = "bind"


@dataclass(frozen=True)
class Driven:
    """Storage that was created separately, as a Kubernetes driver addresses it."""

    driver: str
    handle: str
    attributes: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    """Mount options."""
    own_handles: bool = False
    """Whether the driver needs a different handle for each volume of the same storage."""


@dataclass(frozen=True)
class Disk:
    """A disk that is attached to one node and outlives it."""

    serial: str
    """The serial number by which the node finds the disk."""
    path: str


@dataclass(frozen=True)
class Attached:
    """Addresses of separately created storage. A plan does not contain them, because the cloud assigns them."""

    mounts: tuple[Mount, ...] = ()
    disks: tuple[Disk, ...] = ()
    """Disks of the controller."""
    database: str = ""
    """Host of the accounting database; empty when it runs on the controller."""
    database_authorities: str = ""
    """URL of the certificate authorities of the database; empty if there are none."""
