"""A node's disk: a writable layer over the layers of an image, and what makes it this node's and no other's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room import cgroups, files
from stampworks.machine_room.commands import run
from stampworks.machine_room.processes import Process, from_instance
from stampworks.machine_room.room import Room
from stampworks.machine_room.specs import Commission, GroupSpec, NodeSpec, commission_text, read_commission


@dataclass(frozen=True)
class NodeImage:
    """What nodes boot from."""

    digest: str
    """Changes with anything that went into it."""
    layers: tuple[str, ...]
    """Lower directories of an overlay, the topmost first."""
    packages: str
    """Directory of the flat package repository that nodes see as /exports/.packages."""
    containers: bool = False
    """Whether its nodes run containers, and divide among them what the kernel counts."""


@dataclass(frozen=True)
class NodeDisk:
    """The folder of one node."""

    folder: Path

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def root(self) -> Path:
        """Where the node's file system is put together, seen by the node alone."""
        return self.folder / "root"

    @property
    def console(self) -> Path:
        """What the node said while it booted."""
        return self.folder / "console"

    @property
    def process_file(self) -> Path:
        return self.folder / "process"

    @property
    def process(self) -> Process | None:
        """The node's first process, None when it is gone."""
        try:
            process = from_instance(self.process_file.read_text())
        except FileNotFoundError:
            return None
        return process if process and process.alive else None

    @property
    def commission(self) -> Commission | None:
        """What the disk was made for; None when there is no whole disk."""
        try:
            return read_commission(self.commission_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def condemned(self) -> str:
        """Why somebody wants a new disk in place of this one; empty when nobody does."""
        return files.read_regular(self.condemned_file, CONDEMNED_BYTES_MAX)

    @property
    def condemned_file(self) -> Path:
        return self.folder / "condemned"

    @property
    def cgroups_file(self) -> Path:
        """The node's control groups, of nodes that have any."""
        return self.folder / cgroups.RECORD

    @property
    def host_key(self) -> str:
        """The node's public ssh host key, type and key without a comment: as made, whatever its disk says now."""
        return self.host_key_file.read_text()

    @property
    def host_key_file(self) -> Path:
        return self.folder / "host_key"

    @property
    def commission_file(self) -> Path:
        return self.folder / "node.json"


AUTHORIZED_KEYS = Path("root/.ssh/authorized_keys")
HOST_KEY = Path("etc/ssh/ssh_host_ed25519_key")
KEY_BYTES_MAX = CONDEMNED_BYTES_MAX = 1 << 14


def disk_of(room: Room, name: str) -> NodeDisk:
    return NodeDisk(room.nodes / name)


def commission(node: NodeSpec, group: GroupSpec, image: NodeImage) -> Commission:
    return Commission(node, group.machine, group.accelerators, image.digest, group.volumes)


def make(disk: NodeDisk, wanted: Commission, public_key: str) -> None:
    """Makes a new disk that boots as this node; it counts as made only when it is whole."""
    for folder in (disk.folder, disk.upper, disk.work, disk.root):
        files.make_directory(folder)
    for name, mode in (("etc", 0o755), ("etc/ssh", 0o755), ("root", 0o700)):
        files.make_directory(disk.upper / name, mode)
    make_key(disk.upper / HOST_KEY, wanted.node.name)
    files.write(disk.host_key_file, " ".join((disk.upper / f"{HOST_KEY}.pub").read_text().split()[:2]))
    files.write(disk.upper / "etc/hostname", wanted.node.name + "\n")
    authorize(disk.upper, public_key)
    files.write(disk.commission_file, commission_text(wanted))


def make_key(path: Path, whose: str) -> str:
    """Makes a new ssh key pair at this path and returns the private one."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", whose, "-f", str(path)]
    run(argv, whose, "cannot make an ssh key", timeout=30)
    return path.read_text()


def authorize(root: Path, public_key: str) -> None:
    """Lets this key, and no other, log in as root on the file system at `root`, of a node that does not run."""
    for folder in (root / "root", root / "root/.ssh"):
        if folder.is_symlink():  # a node's link would lead out into this host
            folder.unlink()
        files.make_directory(folder, 0o700)
    files.write(root / AUTHORIZED_KEYS, public_key, 0o600)


def authorized(disk: NodeDisk) -> str:
    """The key that may log in, as far as the node's disk says so."""
    return files.read_regular(disk.upper / AUTHORIZED_KEYS, KEY_BYTES_MAX)
