"""The root's own file system, on which no step follows a link or enters another file system."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stampworks.clouds.hosts.keeping.places import COMPARED, LISTED, STATE, UNLISTED, is_below, matches

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors for paths that lead nowhere, or over a link."""
DIGEST_BYTES_MAX = 1 << 16
TEXT_BYTES_MAX = 1 << 28

Entry = list[Any]
"""Kind, mode, owner, group, size, time, and the digest of a small file or the target of a link."""


class Tree:
    """A file system from its root. Every path is walked by folders that are held open."""

    def __init__(self, root: str, points: Iterable[str], protected: Iterable[str] = ()) -> None:
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self.fd).st_dev
        self.points = {point for point in points if point != "/"}
        self.protected = tuple(protected)

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open a folder by way of all folders above it."""
        parts = [part for part in path.split("/") if part]
        if not path.startswith("/") or {".", ".."} & {*parts}:
            raise OSError(errno.EINVAL, "not a plain absolute path", path)
        fd, at = os.dup(self.fd), ""
        try:
            for part in parts:
                at += f"/{part}"
                below = os.open(part, FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
                if at in self.points or os.fstat(fd).st_dev != self.device:
                    raise OSError(errno.EXDEV, "another file system", at)
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder that holds a path, and return it with the name in it."""
        above, _, name = path.rpartition("/")
        if name in ("", ".", "..") or not path.startswith("/"):
            raise OSError(errno.EINVAL, "not a plain absolute path", path)
        with self.opened(above or "/") as fd:
            yield fd, name

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of a path itself, not of a link's target; None if it cannot be reached."""
        with contextlib.suppress(OSError), self.parent(path) as (fd, name):
            return os.stat(name, dir_fd=fd, follow_symlinks=False)
        return None

    def text(self, path: str) -> str:
        """Return a file's text; empty if it cannot be read."""
        try:
            with self.parent(path) as (fd, name), os.fdopen(os.open(name, FILE, dir_fd=fd), "rb") as file:
                return file.read(TEXT_BYTES_MAX).decode(errors="surrogateescape")
        except OSError:
            return ""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it cannot be reached."""
        with contextlib.suppress(OSError), self.opened(folder) as fd:
            return sorted(os.listdir(fd))  # noqa: PTH208 (an open folder)
        return []

    def entries(self, places: Mapping[str, int] = LISTED) -> dict[str, Entry]:
        """Return the entries of listed places by path."""
        found: dict[str, Entry] = {}
        for place, levels in places.items():
            if levels:
                self._enter(place, levels, found)
                continue
            with contextlib.suppress(OSError), self.parent(place) as (fd, name):
                found[place] = _entry(fd, name, place)
        return found

    def _enter(self, folder: str, levels: int, found: dict[str, Entry]) -> None:
        with contextlib.suppress(OSError), self.opened(folder) as fd:
            for name in sorted(os.listdir(fd)):  # noqa: PTH208 (an open folder)
                path = f"{folder.rstrip('/')}/{name}"
                if matches(path, UNLISTED) or path == STATE:
                    continue  # the folder itself has our list, until all else is given back
                with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                    found[path] = _entry(fd, name, path)
                    if levels > 1 and found[path][0] == stat.S_IFDIR:
                        self._enter(path, levels - 1, found)

    def remove(self, path: str) -> bool:
        """Remove a path with all below it, but not what is protected or mounted. Return whether nothing is left."""
        if is_below(path, (*self.protected, *self.points)):
            return False
        try:
            with self.parent(path) as (fd, name):
                return self._remove(fd, name, path)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return False
            if error.errno in NOWHERE:
                return True
            raise

    def _remove(self, fd: int, name: str, path: str) -> bool:
        if path in self.points or path in self.protected:
            return False
        if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=fd)
            return True
        below = os.open(name, FOLDER, dir_fd=fd)
        try:
            if os.fstat(below).st_dev != self.device:
                return False
            names = os.listdir(below)  # noqa: PTH208 (an open folder)
            gone = [self._remove(below, each, f"{path}/{each}") for each in names]
        finally:
            os.close(below)
        if all(gone):
            os.rmdir(name, dir_fd=fd)
        return all(gone)

    def remove_empty(self, path: str) -> bool:
        """Remove a folder if nothing is in it. Return whether it is gone by that."""
        if is_below(path, (*self.protected, *self.points)):
            return False
        with contextlib.suppress(OSError), self.parent(path) as (fd, name):
            os.rmdir(name, dir_fd=fd)
            return True
        return False

    def make_folder(self, path: str, mode: int) -> None:
        """Make a folder unless it is there."""
        with contextlib.suppress(FileExistsError), self.parent(path) as (fd, name):
            os.mkdir(name, mode, dir_fd=fd)

    def rename(self, path: str, to: str) -> None:
        """Rename a file or folder."""
        with self.parent(path) as (source, name), self.parent(to) as (target, new):
            os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)

    def copy(self, path: str, to: str) -> None:
        """Copy a file, link or folder itself, with owner, mode, time and attributes; nothing else can be copied."""
        with self.parent(path) as (source, name), self.parent(to) as (target, new):
            status = os.stat(name, dir_fd=source, follow_symlinks=False)
            draft = _draft(target, new)
            if stat.S_ISDIR(status.st_mode):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(new, 0o700, dir_fd=target)
                _copy_settings(os.open(name, FOLDER, dir_fd=source), os.open(new, FOLDER, dir_fd=target))
            elif stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(name, dir_fd=source), draft, dir_fd=target)
                os.chown(draft, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
                os.rename(draft, new, src_dir_fd=target, dst_dir_fd=target)
            elif stat.S_ISREG(status.st_mode):
                read, write = os.open(name, FILE, dir_fd=source), os.open(draft, NEW, 0o600, dir_fd=target)
                with os.fdopen(read, "rb", closefd=False) as old, os.fdopen(write, "wb", closefd=False) as copied:
                    shutil.copyfileobj(old, copied)
                _copy_settings(read, write)
                os.rename(draft, new, src_dir_fd=target, dst_dir_fd=target)

    def write(self, path: str, text: str) -> None:
        """Write a file whole, with the owner, mode and attributes of the one that it replaces."""
        with self.parent(path) as (fd, name):
            draft = _draft(fd, name)
            new = os.open(draft, NEW, 0o600, dir_fd=fd)
            with os.fdopen(new, "wb", closefd=False) as file:
                file.write(text.encode(errors="surrogateescape"))
            os.fsync(new)
            try:
                _copy_settings(os.open(name, FILE, dir_fd=fd), new)
            except FileNotFoundError:
                os.close(new)
            os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)


def same(path: str, old: Entry, new: Entry) -> bool:
    """Whether an entry is as it was. The time counts where a file has no digest."""
    if not is_below(path, COMPARED) or old[0] != new[0]:
        return bool(old[0] == new[0])
    return old[:5] + old[6:] == new[:5] + new[6:] and (bool(old[6]) or old[5] == new[5])


def _entry(fd: int, name: str, path: str) -> Entry:
    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    kind, more = stat.S_IFMT(status.st_mode), ""
    with contextlib.suppress(OSError):
        if kind == stat.S_IFLNK:
            more = os.readlink(name, dir_fd=fd)
        elif kind == stat.S_IFREG and status.st_size <= DIGEST_BYTES_MAX and is_below(path, COMPARED):
            with os.fdopen(os.open(name, FILE, dir_fd=fd), "rb") as file:
                more = hashlib.sha256(file.read()).hexdigest()
    size, changed_ns = (status.st_size, status.st_mtime_ns) if kind == stat.S_IFREG else (0, 0)
    return [kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, size, changed_ns, more]


def _draft(fd: int, name: str) -> str:
    """Return the name under which a file is written before it is renamed; it is free."""
    draft = f".{name[:200]}.stampworks"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=fd)
    return draft


def _copy_settings(source: int, target: int) -> None:
    """Give an open file or folder the settings of another one, and close both."""
    try:
        status = os.fstat(source)
        os.fchown(target, status.st_uid, status.st_gid)
        os.fchmod(target, stat.S_IMODE(status.st_mode))
        with contextlib.suppress(OSError):  # a file system may lack attributes
            for name in os.listxattr(source):
                os.setxattr(target, name, os.getxattr(source, name))
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(source)
        os.close(target)
