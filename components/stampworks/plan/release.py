"""Software: versions that work together, and the packages that each part of a node needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CLIENTS: Mapping[str, str] = {
    "lustre": "Lustre client",
    "nfs": "NFS client",
    "fuse": "program that mounts buckets",
}
"""Client packages that a release may include to mount file systems, with a description. They have no roles."""


@dataclass(frozen=True)
class Source:
    """Software that is built on the nodes, because no packages exist."""

    name: str
    repository: str
    """URL of the git repository."""
    tag: str
    """The release tag of the commit, for people; nothing is fetched by tag."""
    commit: str
    """Hash that identifies the whole content."""
    command: tuple[str, ...]
    """Command that builds the programs, run in the top directory of the source."""
    makes: tuple[str, ...]
    """Files to install, relative to the top directory."""


@dataclass(frozen=True)
class Software:
    """Software that a role installs on the nodes that need it."""

    name: str
    """Name of the role or of the client."""
    packages: tuple[tuple[str, str], ...]
    """Pairs (package, version prefix); the prefix is empty for packages of the suite itself."""
    source: Source | None = None
    """Source that the role builds with these packages."""


@dataclass(frozen=True)
class Release:
    """Software versions that work together, and the packages that each part of a node needs."""

    name: str
    suite: str
    """The distribution suite that nodes run."""
    versions: tuple[tuple[str, str], ...]
    """Pairs (part, version) in alphabetical order. A finished node must report these versions."""
    base_packages: tuple[str, ...]
    """Packages on a fresh machine before any role runs."""
    packages: tuple[tuple[str, tuple[str, ...]], ...]
    """Pairs (role, packages that its install part needs), in the order of the roles."""
    boot: tuple[str, ...] = ()
    """Packages with which a node configures itself when it starts later and its image lacks them. Entries of the form
    name==version are Python wheels and exist only in images."""
    kernel: str = ""
    """Version prefix of the kernel that drivers are built for; empty when nodes need no drivers."""
    hardware: tuple[Software, ...] = ()
    """Software for nodes with specific hardware, in the order of the roles."""
    clients: tuple[Software, ...] = ()
    """Clients that mount the cluster's file systems, named as in CLIENTS. Nodes need no restart to get one."""
    kubernetes: tuple[tuple[str, str], ...] = ()
    """Pairs (part, version) of Kubernetes and its extensions; empty for other schedulers."""
