"""File systems as they are declared, and how nodes and pods find what their cloud made."""

from __future__ import annotations

from dataclasses import dataclass, field

from stampworks.plan.marks import IDENTITY, RELEASE, UNORDERED


@dataclass(frozen=True)
class Storage:
    name: str
    kind: str
    tier: str
    """Empty, as 0 and none below: not declared, which is right where there is one choice or none."""
    capacity: int
    """In the unit that its kind is sold in: GiB for most."""
    mbps_per_tib: int
    throughput_mbps: int
    """Of the whole, where it is bought apart from the capacity."""
    read_cache_gib: int
    metadata_iops: int
    efa: bool
    features: tuple[str, ...] = field(metadata=UNORDERED)
    mount: str
    protect: bool
    repository: str = field(default="", metadata=IDENTITY)
    """What its feature data-repository shows: another one of these by its name, or a place in a bucket."""
    expire_days: int = 0
    """After how many days an object of a bucket goes; 0: never."""
    expire_folder: str = ""
    """Only what is below it; empty for all."""
    homes: bool = False
    """Whether homes are declared to be here, and not on the first one that can have them."""
    driver: str = field(default="", metadata=RELEASE)
    """What the cloud calls that which brings it into pods; empty where no Kubernetes of the cloud's own is to."""

    @property
    def bought(self) -> tuple[str, ...]:
        """What its vendor may bill beside the capacity, in words."""
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
        """Which objects of a bucket go by themselves, in words; empty where none does."""
        below = f" below {self.expire_folder}" if self.expire_folder else ""
        return f"objects{below} go after {self.expire_days} days" if self.expire_days else ""


@dataclass(frozen=True)
class Mount:
    """How a node mounts what was made apart from it."""

    source: str
    path: str
    type: str = "none"
    options: str = "bind"


@dataclass(frozen=True)
class Driven:
    """How a driver of Kubernetes finds what was made apart from it."""

    driver: str
    handle: str
    attributes: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    """Of the mount."""
    own_handles: bool = False
    """Whether the driver wants another handle for each volume that leads there."""


@dataclass(frozen=True)
class Disk:
    """A disk that is attached to one node and outlives it."""

    serial: str
    """By which that node finds it."""
    path: str


@dataclass(frozen=True)
class Attached:
    """Where nodes find what was made apart from them: no plan knows it, for its cloud names it."""

    mounts: tuple[Mount, ...] = ()
    disks: tuple[Disk, ...] = ()
    """Of the controller."""
    database: str = ""
    """The machine that has the database of the accounting; empty where that is the controller."""
    database_authorities: str = ""
    """Where those are published that vouch for it; empty where there is none."""
