"""Disk of a node: a writable layer over the layers of an image, with the node's own name and keys."""

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
    """The image that nodes boot from."""

    digest: str
    """Digest of all inputs of the image."""
    layers: tuple[str, ...]
    """Lower directories of an overlay, the topmost first."""
    packages: str
    """Directory of the flat package repository that nodes see as /exports/.packages."""
    containers: bool = False
    """Whether nodes of this image run containers, and so divide their control groups."""


@dataclass(frozen=True)
class NodeDisk:
    """The folder of one node."""

    folder: Path

    @property
    def upper(self) -> Path:
        """The node's own layer, which overlayfs writes to."""
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        """Folder that overlayfs needs next to the upper layer."""
        return self.folder / "work"

    @property
    def root(self) -> Path:
        """Mount point of the node's file system, visible to the node alone."""
        return self.folder / "root"

    @property
    def console(self) -> Path:
        """Output of the node while it booted."""
        return self.folder / "console"

    @property
    def process_file(self) -> Path:
        """File with the identity of the node's first process, if it was started."""
        return self.folder / "process"

    @property
    def process(self) -> Process | None:
        """First process of the node; None if it is gone."""
        try:
            process = from_instance(self.process_file.read_text())
        except FileNotFoundError:
            return None
        return process if process and process.alive else None

    @property
    def commission(self) -> Commission | None:
        """Inputs from which the disk was made; None if there is no complete disk."""
        try:
            return read_commission(self.commission_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def condemned(self) -> str:
        """Reason for a new disk, as a user gave it; empty if there is none."""
        return files.read_regular(self.condemned_file, CONDEMNED_BYTES_MAX)

    @property
    def condemned_file(self) -> Path:
        """File whose presence says that the node is to be deleted."""
        return self.folder / "condemned"

    @property
    def cgroups_file(self) -> Path:
        """List of the node's control groups, for nodes that have any."""
        return self.folder / cgroups.RECORD

    @property
    def host_key(self) -> str:
        """Public ssh host key of the node, without a comment. The disk cannot change it."""
        return self.host_key_file.read_text()

    @property
    def host_key_file(self) -> Path:
        """File with the private ssh key of the node."""
        return self.folder / "host_key"

    @property
    def commission_file(self) -> Path:
        """File with the settings of the disk."""
        return self.folder / "node.json"


AUTHORIZED_KEYS = Path("root/.ssh/authorized_keys")
HOST_KEY = Path("etc/ssh/ssh_host_ed25519_key")
KEY_BYTES_MAX = CONDEMNED_BYTES_MAX = 1 << 14


def disk_of(room: Room, name: str) -> NodeDisk:
    """Return the disk of a node. It need not exist."""
    return NodeDisk(room.nodes / name)


def commission(node: NodeSpec, group: GroupSpec, image: NodeImage) -> Commission:
    """Return the settings for which a node's disk is made. Another value means another disk."""
    return Commission(node, group.machine, group.accelerators, image.digest, group.volumes)


def make(disk: NodeDisk, wanted: Commission, public_key: str) -> None:
    """Make a new disk that boots as this node. It counts as made only when it is complete."""
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
    """Make a new ssh key pair at this path, and return the private key."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", whose, "-f", str(path)]
    run(argv, whose, "cannot make an ssh key", timeout=30)
    return path.read_text()


def authorize(root: Path, public_key: str) -> None:
    """Let only this key log in as root on the file system at `root`. The node must not run."""
    for folder in (root / "root", root / "root/.ssh"):
        if folder.is_symlink():  # remove symlinks: a node's symlink could point to a path of this host
            folder.unlink()
        files.make_directory(folder, 0o700)
    files.write(root / AUTHORIZED_KEYS, public_key, 0o600)


def authorized(disk: NodeDisk) -> str:
    """Return the key that may log in, according to the node's disk."""
    return files.read_regular(disk.upper / AUTHORIZED_KEYS, KEY_BYTES_MAX)
