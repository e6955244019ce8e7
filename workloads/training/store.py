"""Files of shards, wherever they lie: a directory, or any URL that fsspec knows.

A directory is read in place. From elsewhere a file is fetched as a whole, and refused when it has not its digest: into
memory, or with a cache once for all ranks of a node, onto its disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import io
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

PIECE = 2**20
ASKED = 2**24
"""Bytes of a request to a store: the first byte of each takes a while."""
TRIES = 3
PAUSE = 0.5
"""Seconds before the second try; before the third it is twice as long."""
LOCKS = 64
AGAIN = "bring it there again, or make the shards anew (python3 -m training.shards)"
ENDING, PART = ".shard", ".part"
Found = TypeVar("Found")


class DataError(Exception):
    """An error about data, with place, reason and remedy."""


class _CacheError(Exception):
    """The cache cannot be used; the data itself may be valid."""


class Held:
    """An open file of the size that it should have."""

    def __init__(self, where: str, file: BinaryIO, size: int, cached: Path | None = None) -> None:
        self.where, self._file, self.size, self._cached = where, file, size, cached

    def forget(self) -> bool:
        """Remove the file from the cache, so that it is fetched again. Return whether it was there."""
        if self._cached:
            with contextlib.suppress(FileNotFoundError):
                # another process has not replaced it
                if os.path.samestat(self._cached.stat(), os.fstat(self._file.fileno())):
                    self._cached.unlink()
        self.close()
        return self._cached is not None

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file. Raise DataError if it has become shorter."""
        if isinstance(self._file, io.BytesIO):
            found = bytes(self._file.getbuffer()[offset : offset + size])
        else:
            found = os.pread(self._file.fileno(), size, offset)
        if len(found) < size:
            raise DataError(
                f"{self.where}: has become shorter while it was read: shards that are in use must stay as they are"
            )
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Store:
    """A place with files, and a cache of them."""

    def __init__(self, source: str, cache: str = "", room: int = 0) -> None:
        self.source, self.shown = source, shown(source)
        self.notices: list[str] = []
        """Notices for people, each once."""
        self.cache: Path | None = Path(cache) if cache else None
        self._room = room
        self._filesystem: Any = None
        self._root = source
        if "://" in source:
            self._filesystem, self._root = _reach(source)
        self._ended = threading.Event()
        self._giving_up = threading.Lock()

    def content(self, name: str, limit: int) -> bytes:
        """All of a small file."""

        def work() -> bytes:
            with self._opened(name) as file:
                return bytes(self._told(name, lambda: file.read(limit + 1)))

        found = self._patiently(work)
        if len(found) > limit:
            raise DataError(f"{self.shown}/{name}: has more than {limit:,} bytes, which no such file needs")
        return found

    def open(self, name: str, size: int, digest: str) -> Held:
        """Open the file of this size and digest."""
        if self.cache:
            try:
                return self._cached(self.cache, name, size, digest)
            except (_CacheError, OSError) as error:  # an error of the source itself is a DataError
                self._give_up(self.cache, error)
        if self._filesystem is None:
            file = self._patiently(lambda: self._opened(name))
            if problem := _other_size(os.fstat(file.fileno()).st_size, size):
                file.close()
                raise DataError(f"{self.shown}/{name}: {problem}: {AGAIN}")
            return Held(f"{self.shown}/{name}", file, size)
        memory = io.BytesIO()
        self._fetch(name, memory, size, digest)
        return Held(f"{self.shown}/{name}", memory, size)

    def end(self) -> None:
        """Stop work under way at its next piece."""
        self._ended.set()

    def _opened(self, name: str) -> Any:
        if self._filesystem is None:
            return self._told(name, lambda: (Path(self._root) / name).open("rb", buffering=0))
        return self._told(name, lambda: self._filesystem.open(f"{self._root}/{name}", "rb", block_size=ASKED))

    def _told(self, name: str, work: Callable[[], Any]) -> Any:
        """Return the result of `work`; raise its errors with their place. Libraries raise errors of every kind."""
        try:
            return work()
        except (FileNotFoundError, NotADirectoryError) as error:
            cause = error.__cause__
            if cause is None or isinstance(cause, FileNotFoundError):
                raise DataError(f"{self.shown}/{name}: is missing: {AGAIN}") from None
            # fsspec says so of a server that did not answer, too
            raise _UnreadError(f"{self.shown}/{name}: is not found: {_said(cause, self.source)}") from None
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else _said(error, self.source)
            raise _UnreadError(f"{self.shown}/{name}: cannot be read: {why}") from None

    def _fetch(self, name: str, to: BinaryIO, size: int, digest: str) -> None:
        def work() -> None:
            to.seek(0)
            to.truncate()
            with self._opened(name) as file:
                self._copy(name, file, to, size, digest)

        self._patiently(work)

    def _patiently(self, work: Callable[[], Found]) -> Found:
        """Storage across a network fails for a moment now and then, and is asked again."""
        for number in range(1, TRIES):
            try:
                return work()
            except _UnreadError:
                self._ended.wait(PAUSE * number)
        try:
            return work()
        except _UnreadError as error:
            raise DataError(f"{error}; tried {TRIES} times") from None

    def _copy(self, name: str, file: Any, to: BinaryIO, size: int, digest: str) -> None:
        """Copy the file and verify it. Never write more than the announced size."""
        where, found, left = f"{self.shown}/{name}", hashlib.sha256(), size + 1
        while piece := self._told(name, functools.partial(file.read, min(PIECE, left))):
            if self._ended.is_set():
                raise DataError(f"{where}: not read, the stream was closed")
            found.update(piece)
            left -= len(piece)
            to.write(piece)
        if problem := _other_size(size + 1 - left, size):
            raise DataError(f"{where}: {problem}: {AGAIN}")
        if found.hexdigest() != digest:
            told = f"its sha256 is {found.hexdigest()[:12]}…, and its index says {digest[:12]}…"
            raise DataError(f"{where}: corrupt: {told}: {AGAIN}")

    def _cached(self, cache: Path, name: str, size: int, digest: str) -> Held:
        path = cache / f"{digest}{ENDING}"
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # cached data is trusted
        with self._locked(cache, digest):
            if held := self._kept(path, name, size):
                return held
            if size > self._limit(cache):
                raise _CacheError(f"{name} has {size:,} bytes, more than the {self._limit(cache):,} that it may take")
            descriptor, draft = tempfile.mkstemp(PART, f"{digest}.", cache)
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123 (of a descriptor)
                    self._fetch(name, file, size, digest)
                Path(draft).replace(path)
            except BaseException:
                Path(draft).unlink(missing_ok=True)
                raise
            held = self._kept(path, name, size)
        self._make_room(cache, path)
        if not held:
            raise _CacheError("what was written there came back other than it was")
        return held

    def _kept(self, path: Path, name: str, size: int) -> Held | None:
        """The cached file, if it is there and whole."""
        try:
            file = path.open("rb", buffering=0)
        except FileNotFoundError:
            return None
        if os.fstat(file.fileno()).st_size != size:
            file.close()
            path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # remove the least recently used file first
        return Held(f"{self.shown}/{name}", file, size, path)

    @contextlib.contextmanager
    def _locked(self, cache: Path, digest: str) -> Iterator[None]:
        """Lock a file of the cache, so that a single process fetches it. The few lock files stay; a lock ends with its
        process."""
        number = int(digest[:4], 16) % LOCKS
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(cache / f"lock-{number:02d}", flags, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._ended.wait(0.02):
                        raise DataError(f"{self.shown}: not read, the stream was closed") from None
            for left in cache.glob(f"{digest}.*{PART}"):
                left.unlink(missing_ok=True)  # its writer held this lock, and is dead
            yield
        finally:
            os.close(descriptor)

    def _limit(self, cache: Path) -> int:
        """Return the limit of the cache in bytes: half of the space that would be free without it."""
        return self._room or (shutil.disk_usage(cache).free + sum(size for _, size, _ in _kept_files(cache))) // 2

    def _make_room(self, cache: Path, but: Path) -> None:
        """Delete cached files. Processes that have them open can read to the end."""
        files = sorted(_kept_files(cache))
        over = sum(size for _, size, _ in files) - self._limit(cache)
        for _, size, path in files:
            if over > 0 and path != but:
                path.unlink(missing_ok=True)
                over -= size

    def _give_up(self, cache: Path, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        with self._giving_up:  # several may open shards at once
            if self.cache:
                self.notices.append(f"{cache}: cannot be used as a cache: {why}: shards are read without one")
            self.cache = None


class _UnreadError(DataError):
    """May go better the next time."""


def _other_size(found: int, size: int) -> str:
    if found < size:
        return f"truncated: it has {found:,} bytes, and its index says {size:,}"
    if found > size:
        return f"has more than the {size:,} bytes that its index says"
    return ""


def _kept_files(cache: Path) -> Iterator[tuple[float, int, Path]]:
    for path in cache.glob(f"*{ENDING}"):
        with contextlib.suppress(FileNotFoundError):
            about = path.stat()
            yield about.st_mtime, about.st_size, path


def _reach(source: str) -> tuple[Any, str]:
    try:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(source)
    except Exception as error:  # for example an unknown protocol, a missing package, or refused credentials
        hint = "pip install fsspec, and what it asks for, in the environment that trains"
        raise DataError(f"{shown(source)}: cannot be reached: {_said(error, source)}: {hint}") from None
    return filesystem, str(root).rstrip("/")


def shown(source: str) -> str:
    """Return a source without possible secrets: user, password and query."""
    plain = re.sub(r"(://)[^/@]*@", r"\1…@", source)
    return re.sub(r"\?.*", "?…", plain).rstrip("/")


def _said(error: BaseException, source: str) -> str:
    text = f"{type(error).__name__}: {error}"
    for secret in re.findall(r"://([^/@]*)@|\?(.*)", source):
        for each in filter(None, secret):
            text = text.replace(each, "…")
    return text
