"""Facts about machines that exist, as a survey over ssh finds them. No plan depends on them; rules judge plans by them.

Every text comes from a machine that may say anything: the survey keeps plain characters only, and limits lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reached = Literal["yes", "silent", "refused", "impostor", "unreadable"]
"""Answer of a host to ssh: it ran the survey; no answer; the login was refused; it showed another host key; or its
answer is none of the survey."""
SURVEY_VERSION = 1


@dataclass(frozen=True)
class PciDevice:
    """A display controller or accelerator on the PCI bus."""

    address: str
    id: str
    """Vendor and device, like 10de:2330."""
    kind: str
    """PCI class, like 0x030200."""


@dataclass(frozen=True)
class RdmaPort:
    """A port of an RDMA device: InfiniBand or RoCE."""

    device: str
    number: int
    state: str
    """Like ACTIVE, INIT or DOWN."""
    rate_gbps: float
    """Zero when unknown."""
    link_layer: str
    """InfiniBand or Ethernet."""
    subnet_manager: int
    """Its lid; zero when none has been seen."""
    gid: str
    """The first one, whose first half is the prefix of the subnet on InfiniBand."""
    pci: str
    """PCI address; empty when unknown."""
    interface: str
    """Network interface on the same card; empty for none."""
    partition_keys: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name for people, like mlx5_0/1."""
        return f"{self.device}/{self.number}"

    @property
    def subnet_prefix(self) -> str:
        """Return the prefix of the InfiniBand subnet; empty when unknown."""
        return self.gid[:19] if len(self.gid) == 39 else ""


@dataclass(frozen=True)
class NetworkInterface:
    """A network interface with its addresses."""

    name: str
    mtu: int
    """Zero when unknown."""
    carrier: bool
    speed_mbps: int
    """Zero when the driver does not say."""
    pci: str
    addresses: tuple[str, ...]
    """With their prefix length."""


@dataclass(frozen=True)
class Content:
    """Data on a disk or partition."""

    device: str
    kind: str
    """Type of file system, array or partition table; or the device that is made of it."""
    label: str


@dataclass(frozen=True)
class DiskFacts:
    """A disk, and what it holds."""

    name: str
    gb: int
    model: str
    content: tuple[Content, ...]


@dataclass(frozen=True)
class MountFacts:
    """A mounted file system."""

    point: str
    kind: str
    source: str
    device: str
    """Its number, like 254:0."""
    inside: str
    """The directory of the file system that is mounted."""


@dataclass(frozen=True)
class SharedPath:
    """A directory that a survey was asked for."""

    path: str
    state: Literal["yes", "no", "hangs"]


@dataclass(frozen=True)
class HostSurvey:
    """Everything that a host said about itself; empty where it did not say."""

    os: str
    """Like debian."""
    suite: str
    """Code name of its release, like trixie."""
    os_name: str
    kernel: str
    architecture: str
    machine_id: str
    boot_id: str
    """Equal for machines that share a kernel."""
    python3: str
    """Path of the interpreter."""
    user: str
    root: bool
    """Whether the user is root, or becomes root by sudo without a password."""
    container: tuple[str, ...]
    """Signs that the host is a container."""
    sockets: int
    cores: int
    threads: int
    memory_mib: int
    accelerators: tuple[PciDevice, ...]
    drivers: tuple[str, ...]
    """Loaded ones, like nvidia 580.126.09."""
    ports: tuple[RdmaPort, ...]
    interfaces: tuple[NetworkInterface, ...]
    disks: tuple[DiskFacts, ...]
    mounts: tuple[MountFacts, ...]
    shared: tuple[SharedPath, ...]
    mark: str
    """Its mark of a cluster, as JSON."""
    runs: tuple[str, ...]
    """Programs of schedulers."""
    neighbour: str
    """Inside address of another host that it tried; empty for none."""
    neighbour_reached: Literal["yes", "no", "unknown"]
    clock_ahead_s_min: float
    """Bounds of the difference between its clock and that of the machine that asked."""
    clock_ahead_s_max: float


@dataclass(frozen=True)
class HostFacts:
    """The answer of a host to one survey."""

    address: str
    port: int
    host_key: str
    """The key that it was expected to have, and had if it answered."""
    reached: Reached
    why: str
    """Reason when it did not answer; empty when it did."""
    survey: HostSurvey | None

    @property
    def id(self) -> str:
        """Return the name of the host for people, as that of a plan's host."""
        return self.address if self.port == 22 else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class HostsSurvey:
    """The survey of all machines of a cluster."""

    version: int
    cluster: str
    at: str
    """Formatted like 2026-11-22T17:30Z."""
    hosts: tuple[HostFacts, ...]
