"""Place of a cluster on this machine: its folder and its outer process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room import cgroups, files, outer
from stampworks.machine_room.commands import MAPPED_ROOT, failed
from stampworks.machine_room.errors import RoomError
from stampworks.machine_room.processes import Process, from_instance
from stampworks.state import paths

Progress = Callable[[str], None]

LOCK_TIMEOUT_S = 300


@dataclass(frozen=True)
class Room:
    """The room of a cluster: a folder for data that must survive, and a process that holds everything else."""

    folder: Path
    name: str
    """Name of the room in messages."""

    @property
    def nodes(self) -> Path:
        """Folder of the nodes' disks."""
        return self.folder / "nodes"

    @property
    def exports(self) -> Path:
        """Shared directories, which every node sees."""
        return self.folder / "exports"

    @property
    def volumes(self) -> Path:
        """Disks that outlive the node that mounts them."""
        return self.folder / "volumes"

    @property
    def identity_file(self) -> Path:
        """Private ssh key with which the toolkit logs in to nodes."""
        return self.folder / "ssh" / "id_ed25519"

    @property
    def public_key_file(self) -> Path:
        """Public part of that key, which nodes accept."""
        return self.folder / "ssh" / "id_ed25519.pub"

    @property
    def network_file(self) -> Path:
        """File with the network that the room was started with."""
        return self.folder / "network.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the room's lock, so that no other command changes the room."""
        files.make_directory(self.folder.parent, 0o700)
        with files.locked(self._lock_file, self.name, LOCK_TIMEOUT_S):
            yield

    @property
    def owner(self) -> str:
        """Claim of the stack that owns this room; empty when it has no owner."""
        try:
            return self._owner_file.read_text()
        except FileNotFoundError:
            return ""

    def claim(self, claim: str) -> None:
        """Record the owner before anything is put into the room. The caller holds its lock."""
        self.expect(claim)
        if not self.owner:
            files.make_directory(self.folder, 0o700)
            files.write(self._owner_file, claim)

    def is_ours(self, claim: str) -> bool:
        """Whether the room belongs to this claim or to none. A room of another stack must be neither read nor ended."""
        return self.owner in ("", claim)

    def expect(self, claim: str) -> None:
        """Raise RoomError when another stack owns the room."""
        if not self.is_ours(claim):
            remedy = "give one of the two clusters another name, or destroy the other stack first;"
            remedy += f"\n  if that stack is lost: stampworks sweep {self.folder.name}"
            raise RoomError(self.name, "the machine room belongs to another stack", f"to {self.owner}", remedy)

    @property
    def process(self) -> Process | None:
        """Outer process; None when it is gone."""
        try:
            process = from_instance(self._process_file.read_text())
        except FileNotFoundError:
            return None
        return process if process and process.alive else None

    @property
    def running(self) -> Process:
        """Outer process of a room that must run."""
        if process := self.process:
            return process
        raise RoomError(self.name, "the machine room is not running", "its outer process has ended", "run: pulumi up")

    def failed(self, what: str, why: str) -> RoomError:
        """Return the error for a failure in the room, with a remedy."""
        process = self.process
        return failed(self.name, what, why, outer=process.pid if process else 0)

    def start(self) -> None:
        """Start the outer process, which lives until it is ended."""
        self._prepare()
        outer.start(self.name, self._hostname, self._record, leashed=False).close()

    @contextlib.contextmanager
    def leashed(self) -> Iterator[None]:
        """Start a room that ends with this block or with this process, even when that is killed."""
        self._prepare()
        with outer.start(self.name, self._hostname, self._record, leashed=True):
            try:
                yield
            finally:
                self.end()

    def end(self) -> None:
        """End every process, namespace, mount and address of the room. Its folder stays."""
        if process := self.process:
            launcher = process.parent
            process.end(self.name)
            if launcher and launcher.program == "unshare":  # the launcher ends by itself, a moment later
                launcher.wait(self.name)
        self._process_file.unlink(missing_ok=True)
        for record in self.nodes.glob(f"*/{cgroups.RECORD}"):
            cgroups.remove(record, self.name)

    def remove(self) -> None:
        """End the room and remove its folder. The caller holds its lock."""
        self.end()
        for entry in self.folder.glob("*"):
            if entry != self._owner_file:  # remove the owner last: a half-removed room still has its owner
                files.remove_tree(entry, self.name)
        files.remove_tree(self.folder, self.name)
        self._lock_file.unlink(missing_ok=True)

    @property
    def reach(self) -> tuple[str, ...]:
        """Prefix of a command that sees this host's files and processes but the room's network."""
        return (*enter(self.running), "--net", "--")

    @property
    def inside(self) -> tuple[str, ...]:
        """Prefix of a command that runs in all of the room's namespaces."""
        return (*enter(self.running), "--mount", "--net", "--uts", "--ipc", "--pid", "--")

    @property
    def _process_file(self) -> Path:
        return self.folder / "process"

    @property
    def _owner_file(self) -> Path:
        return self.folder / "owner"

    @property
    def _lock_file(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.lock")

    @property
    def _hostname(self) -> str:
        return self.folder.name[:63]

    def _prepare(self) -> None:
        for folder, mode in ((self.folder, 0o700), (self.nodes, 0o755), (self.exports, 0o755)):
            files.make_directory(folder, mode)

    def _record(self, process: Process) -> None:
        files.write(self._process_file, process.instance)


def rooms_dir() -> Path:
    """Return the folder of all rooms of this user."""
    return paths.state_dir() / "rooms"


def of_cluster(cluster: str) -> Room:
    """Return the room of a cluster. It need not exist."""
    return Room(rooms_dir() / cluster, f"cluster {cluster}")


def enter(process: Process) -> tuple[str, ...]:
    """Return the start of a command that joins namespaces of a process.

    An ordinary user has to join the user namespace of the process first.
    """
    user = ("--user", "--preserve-credentials") if MAPPED_ROOT else ()
    return ("nsenter", f"--target={process.pid}", *user)
