"""Files that are complete or absent, locks between processes, and trees that belong to mapped users."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stampworks.machine_room.commands import MAPPED_ROOT, failed, run
from stampworks.machine_room.errors import RoomError


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace the file atomically: a reader sees the old text or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, mode)  # independent of the caller's umask
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise failed(str(path), "cannot write it", str(error.strerror), place=path) from error


def read_regular(path: Path, bytes_max: int) -> str:
    """Return the start of a file that another user may have put there; empty for anything but a regular file, such as a
    pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(bytes_max).decode(errors="replace") if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""


def make_directory(path: Path, mode: int = 0o755) -> Path:
    """Create the directory with exactly this mode. An existing directory keeps its mode."""
    try:
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)
    except OSError as error:
        raise failed(str(path), "cannot make the directory", str(error.strerror), place=path) from error
    return path


def remove_tree(path: Path, where: str) -> None:
    """Remove a tree, whichever user of the room owns it."""
    if not path.exists():
        return
    # --one-file-system: never remove the contents of a remaining mount
    remove, what = ["rm", "-rf", "--one-file-system", str(path)], f"cannot remove {path}"
    try:
        run(remove, where, what, timeout=120)
    except RoomError:
        if not MAPPED_ROOT:
            raise
        run([*MAPPED_ROOT, *remove], where, what, timeout=120)  # a user of the node's namespace owns it: their root may


@contextlib.contextmanager
def locked(path: Path, where: str, timeout: float, busy: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock that excludes other threads and processes. It ends with its holder, however that ends.

    `busy` is called once if the lock is taken.
    """
    descriptor = _take(path, where, timeout, busy)
    try:
        yield
    finally:
        os.close(descriptor)


def _take(path: Path, where: str, timeout: float, busy: Callable[[], None] | None) -> int:
    deadline = time.monotonic() + timeout
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(descriptor, path):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                why = f"it did not finish within {timeout:g} s"
                raise RoomError(where, "another command is at work here", why, f"see: fuser -v {path}") from None
            if busy:
                busy()
                busy = None
            time.sleep(0.02)
        os.close(descriptor)


def _same_file(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still at its path.

    The last holder may have removed it; the lock protects nothing then.
    """
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
