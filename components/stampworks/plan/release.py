"""Software: versions that go together, and what each part of a node needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CLIENTS: Mapping[str, str] = {
    "lustre": "Lustre client",
    "nfs": "NFS client",
    "fuse": "program that mounts buckets",
}
"""What a release may have to mount file systems with, and what that is in words: packages, and no roles."""


@dataclass(frozen=True)
class Source:
    """What is built on nodes, since nobody publishes packages of it."""

    name: str
    repository: str
    """Of git."""
    tag: str
    """What people call the commit; nothing is fetched by it."""
    commit: str
    """A digest of all that is in it."""
    command: tuple[str, ...]
    """What makes the programs, in the top of the source."""
    makes: tuple[str, ...]
    """The files that are installed, from there."""


@dataclass(frozen=True)
class Software:
    """What a role brings onto the nodes that need it."""

    name: str
    """The role's, or the client's."""
    packages: tuple[tuple[str, str], ...]
    """(package, the beginning of its version), empty where the suite itself has it."""
    source: Source | None = None
    """What the role builds with these packages."""


@dataclass(frozen=True)
class Release:
    """Software versions that go together, and the packages each part of a node needs."""

    name: str
    suite: str
    """The suite of the distribution that a node runs."""
    versions: tuple[tuple[str, str], ...]
    """(part, version) in alphabetical order: what a finished node must report."""
    base_packages: tuple[str, ...]
    """What a fresh machine has before any role ran."""
    packages: tuple[tuple[str, tuple[str, ...]], ...]
    """(role, packages its install part needs), in the order of the roles."""
    boot: tuple[str, ...] = ()
    """With what a node configures itself that starts later, where its image does not have it; but for name==version,
    which only images have, from wheels."""
    kernel: str = ""
    """The beginning of the version of the kernel that drivers are built for; empty where nodes need none."""
    hardware: tuple[Software, ...] = ()
    """What only some nodes get, for what they have, in the order of the roles."""
    clients: tuple[Software, ...] = ()
    """What mounts the cluster's file systems, by what CLIENTS calls it: no node has to start anew for it."""
    kubernetes: tuple[tuple[str, str], ...] = ()
    """(part, version) of Kubernetes and what it is extended by; none for another scheduler."""
