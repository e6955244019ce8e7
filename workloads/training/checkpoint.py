"""Checkpoints that outlive the run: written beside training, published whole or not at all, read only when whole.

A checkpoint is a folder `step-00000120` in the format of torch.distributed.checkpoint, which its tools read, and a
manifest with the digest of every file. It is written as `step-00000120.partial`, each file is on the disk before the
folder gets its name, and a name once given is taken away only when newer ones have theirs. Whoever is killed on the way
leaves something without a name, which the next one clears.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import datetime
import errno
import functools
import hashlib
import json
import os
import pickle
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.distributed.tensor import DTensor
from torch.futures import Future

VERSION = 1
"""Of the manifest and of what it says."""
MANIFEST, METADATA = "manifest.json", ".metadata"
MANIFEST_MAX = 2**26
PARTIAL, REPLACED, REMOVED = ".partial", ".replaced", ".removed"
BLOCK = 2**23
"""What is written or read at once."""
SMALL = 2**16
"""Below it bytes wait for more of them."""

LIBC = ctypes.CDLL(None)
SYNC_FILE_RANGE_WRITE = 2
"""Begin, and do not wait: fsync tells how it went."""

Result = TypeVar("Result")


class CheckpointError(Exception):
    """What is wrong with a checkpoint, where, and what to do."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was published."""

    step: int
    bytes: int
    seconds: float
    """From the beginning of the save until it was published."""
    folder: Path


@dataclass(frozen=True)
class Found:
    """A checkpoint that is whole."""

    step: int
    folder: Path
    world: int
    """The number of ranks that wrote it."""
    told: dict[str, Any]
    """What was told to `save`."""
    passed_over: tuple[str, ...]
    """Why newer ones are not it."""


@dataclass(frozen=True)
class File:
    """What a manifest says of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says of itself."""

    step: int
    world: int
    model: str
    files: dict[str, File]
    told: dict[str, Any]

    def text(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"


class Checkpoints:
    """The checkpoints of one run in one folder, which all ranks see. Every method is called by all ranks alike."""

    def __init__(self, folder: Path, keep: int, rank: int, world: int, model: str, wait_s: float = 600.0) -> None:
        self.folder, self.keep, self.rank, self.world, self.model = folder, keep, rank, world, model
        # The default group is training's: a save that used it beside a step would wait for what the step waits for.
        waiting = datetime.timedelta(seconds=wait_s)
        self._group = dist.new_group(backend="gloo", timeout=waiting) if dist.is_initialized() else None
        self._staging = Staging()
        self._saving: threading.Thread | None = None
        self._saved: Saved | None = None
        self._problem: str | None = None
        self._causes: frozenset[str] = frozenset()
        self._damaged: set[str] = set()

    def save(self, state: dict[str, Any], step: int, told: dict[str, Any]) -> float:
        """Copy the state and write it in the background; the seconds this took, with the wait for the one before."""
        begun = time.perf_counter()
        self.finish()
        staged = self._staging.copy(state)
        self._saving = threading.Thread(target=self._save, args=(staged, step, told, begun), daemon=True)
        self._saving.start()
        return time.perf_counter() - begun

    def finish(self) -> None:
        """Wait until what was begun is published, or has failed."""
        if self._saving:
            self._saving.join()
            self._saving = None

    def done(self) -> Saved | None:
        """The newest that was published since this was asked last."""
        saved, self._saved = self._saved, None
        return saved

    def problem(self) -> str | None:
        """Why a checkpoint was not saved; the same reason is said once, until one is saved again."""
        problem, self._problem = self._problem, None
        return problem

    def newest(self) -> Found | None:
        """The newest whole checkpoint of this model; None where there is none at all.

        CheckpointError where there are some and none can be used: a run that began anew would in time replace them.
        """
        self.finish()
        names = self._together(self._names)
        passed_over: list[str] = []
        for name in names:
            manifest, why = self._together(functools.partial(self._described, name))
            if manifest:
                problems = [each for each in self._each(functools.partial(self._damage, name, manifest)) if each]
                if not problems:
                    return Found(manifest.step, self.folder / name, manifest.world, manifest.told, tuple(passed_over))
                why = _in_short(problems)
                self._damaged.add(name)
            passed_over.append(why)
        if passed_over:
            raise CheckpointError(
                f"{self.folder}: none of {len(names)} checkpoints can be used:\n"
                + "".join(f"  {problem}\n" for problem in passed_over)
                + "Name another directory to begin anew, or move them away."
            )
        return None

    def load(self, found: Found, state: dict[str, Any]) -> dict[str, Any]:
        """Read a checkpoint into the tensors of a state, on any number of ranks; what was told when it was saved."""
        try:
            dcp.load(state, storage_reader=dcp.FileSystemReader(found.folder), process_group=self._group)
        except CheckpointException as refused:
            raise CheckpointError(
                f"{found.folder}: does not fit this state: {_in_short(_reasons(refused))}"
            ) from refused
        return found.told

    # -- saving, in a thread

    def _save(self, staged: dict[str, Any], step: int, told: dict[str, Any], begun: float) -> None:
        writer = Writer(self, step, told)
        try:
            dcp.save(staged, storage_writer=writer, process_group=self._group)
            size = self._together(lambda: writer.bytes)
            self._saved = Saved(step, size, time.perf_counter() - begun, writer.final)
            self._causes = frozenset()
            if not self.rank:
                self._retain(step)
        except CheckpointException as failed:
            self._failed(writer, _reasons(failed))
        except Exception as error:
            self._failed(writer, [f"rank {self.rank}: {type(error).__name__}: {error}"])

    def _failed(self, writer: Writer, reasons: list[str]) -> None:
        if not self.rank:
            shutil.rmtree(writer.folder, ignore_errors=True)
        causes = frozenset(re.sub(r"\d+", "", reason) for reason in reasons)  # whatever the step and the ranks
        if causes != self._causes:
            self._problem = (
                f"{writer.final}: was not saved, and training goes on: {_in_short(reasons)}. "
                "Earlier ones are kept, and the next one is tried again."
            )
        self._causes = causes

    def _retain(self, step: int) -> None:
        """Remove what is older than the newest few, of which the one just published is one.

        What has a higher step is of a run that went on from an earlier one: it is damaged, or is replaced in time.
        """
        names = [name for name in _published(self.folder) if _step(name) <= step]
        own = [name for name in names if name not in self._damaged and self._is_own(name)]
        for name in own[self.keep :]:
            self._remove(name)
        oldest = _step(own[self.keep - 1]) if len(own) > self.keep else 0
        for name in self._damaged & {name for name in names if _step(name) < oldest}:
            self._remove(name)

    def _is_own(self, name: str) -> bool:
        try:
            return _manifest(self.folder / name).model == self.model
        except CheckpointError:
            return False

    def _remove(self, name: str) -> None:
        """Under another name first: half a checkpoint must not look like one."""
        removed = self.folder / f"{name}{REMOVED}"
        try:
            (self.folder / name).rename(removed)
            shutil.rmtree(removed)
        except OSError as error:
            self._problem = f"{self.folder / name}: cannot be removed, though newer ones are there: {error.strerror}"

    # -- reading

    def _names(self) -> list[str]:
        clear(self.folder)
        return _published(self.folder)

    def _described(self, name: str) -> tuple[Manifest | None, str]:
        """The manifest of a checkpoint of this model, else why it is none."""
        if foreign := self._foreign(self.folder / name):
            return None, foreign
        try:
            manifest = _manifest(self.folder / name)
        except CheckpointError as error:
            return None, str(error)
        if manifest.model != self.model:
            return None, f"{self.folder / name}: is of another model ({manifest.model}) than this run's ({self.model})"
        return manifest, ""

    def _foreign(self, folder: Path) -> str:
        """Why it was not written by whoever runs this: to read its metadata is to do what its writer says."""
        with tempfile.TemporaryFile(dir=self.folder) as file:  # as whom this file system knows us
            own = os.fstat(file.fileno()).st_uid
        for path in (folder, folder / MANIFEST, folder / METADATA):
            with contextlib.suppress(OSError):
                if (owner := path.lstat().st_uid) != own:
                    return f"{path}: belongs to user {owner}, and this run's files to {own}: is it the right directory?"
        return ""

    def _damage(self, name: str, manifest: Manifest) -> str:
        """What is wrong with this rank's part of the files: as many ranks as wrote them look at one each."""
        mine = list(manifest.files)[self.rank :: self.world]
        problems = (_difference(self.folder / name / each, manifest.files[each]) for each in mine)
        return next(filter(None, problems), "")

    # -- together

    def _together(self, work: Callable[[], Result]) -> Result:
        """What rank 0 finds, on every rank."""
        found: list[Any] = [None]
        if not self.rank:
            try:
                found = [(work(), None)]
            except OSError as error:
                found = [(None, f"{error.filename}: {error.strerror}")]
        if self._group:
            dist.broadcast_object_list(found, 0, group=self._group)
        result, problem = found[0]
        if problem:
            raise CheckpointError(f"{problem}: checkpoints must be in a directory that all ranks can read and write")
        return result  # type: ignore[no-any-return]

    def _each(self, work: Callable[[], Result]) -> Sequence[Result]:
        """What each rank finds, on every rank."""
        found: list[Any] = [work()]
        if self._group:
            own, found = found[0], [None] * self.world
            dist.all_gather_object(found, own, group=self._group)
        return found


class Staging:
    """Copies of a state in memory of the host, which the next copy uses again: fresh memory is slow the first time."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[Any, ...], Tensor] = {}

    def copy(self, state: dict[str, Any]) -> dict[str, Any]:
        """The same state, of which nothing changes with what it was copied from."""
        pairs: list[tuple[Tensor, Tensor]] = []
        copied = self._copied(state, (), pairs)
        for mine, theirs in pairs:
            if theirs.is_cpu and theirs.is_contiguous():  # half as fast again as a copy of torch, which fills caches
                ctypes.memmove(mine.data_ptr(), theirs.data_ptr(), theirs.nbytes)
            else:
                mine.copy_(theirs, non_blocking=True)
        if any(theirs.is_cuda for _, theirs in pairs):
            torch.cuda.current_stream().synchronize()
        return copied  # type: ignore[no-any-return]

    def _copied(self, value: Any, place: tuple[Any, ...], pairs: list[tuple[Tensor, Tensor]]) -> Any:
        if isinstance(value, dict):
            return {key: self._copied(each, (*place, key), pairs) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._copied(each, (*place, number), pairs) for number, each in enumerate(value))
        if isinstance(value, DTensor):
            buffer = self._buffer(value._local_tensor.detach(), place, pairs)
            return DTensor(buffer, value._spec, requires_grad=False)
        if isinstance(value, Tensor):
            return self._buffer(value.detach(), place, pairs)
        return value

    def _buffer(self, value: Tensor, place: tuple[Any, ...], pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
        buffer = self._buffers.get(place)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[place] = buffer
        pairs.append((buffer, value))
        return buffer


@dataclass(frozen=True)
class Written:
    """Where an item is, and the file that it is in."""

    item: _StorageInfo
    file: File


class Writer(StorageWriter):
    """Writes one checkpoint: each rank one file, rank 0 what describes it, and the name when everything is there."""

    def __init__(self, checkpoints: Checkpoints, step: int, told: dict[str, Any]) -> None:
        self._of, self._told, self._step = checkpoints, told, step
        self.final = checkpoints.folder / f"step-{step:08}"
        self.folder = self.final.with_name(self.final.name + PARTIAL)
        self.bytes = 0
        """Of all files, known to rank 0 when they are published."""

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def validate_checkpoint_id(cls, _: str | os.PathLike[str]) -> bool:
        return True

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Rank 0 makes the folder, before anybody writes."""
        with _located(self._of.rank, self.folder):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            clear(self.folder.parent)
            self.folder.mkdir()
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        results: list[WriteResult] = []
        if plan.items:
            path = self.folder / f"__{self._of.rank}_0.distcp"
            with _located(self._of.rank, path):
                results = _written(path, plan, planner)
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Rank 0 describes what all have written, and publishes it."""
        with _located(self._of.rank, self.folder):
            written = [result for each in results for result in each]
            metadata.storage_data = {result.index: result.storage_data.item for result in written}
            files = {result.storage_data.item.relative_path: result.storage_data.file for result in written}
            self._see(files)
            files[METADATA] = _write(self.folder / METADATA, pickle.dumps(metadata))
            manifest = Manifest(self._step, self._of.world, self._of.model, files, self._told)
            _write(self.folder / MANIFEST, manifest.text().encode())
            _sync(self.folder)
            self._publish()
            self.bytes = sum(file.bytes for file in files.values())

    def _see(self, files: dict[str, File]) -> None:
        """Every rank's file is here: the folder is one that all share."""
        for name, file in files.items():
            path = self.folder / name
            if not path.exists() or path.stat().st_size != file.bytes:
                raise CheckpointError(
                    f"{path}: another rank has written it, and rank 0 on {_host()} does not see it: "
                    "checkpoints must be in a directory that all nodes share"
                )

    def _publish(self) -> None:
        """The one of the same step that is there already goes only when this one can have its name at once."""
        replaced = self.final.with_name(self.final.name + REPLACED)
        if self.final.exists():
            if not self._of._is_own(self.final.name) and self.final.name not in self._of._damaged:
                raise CheckpointError(f"{self.final}: is there already, and is not of this model: move it away")
            self.final.rename(replaced)
        self.folder.rename(self.final)
        _sync(self.final.parent)
        shutil.rmtree(replaced, ignore_errors=True)
        self._of._damaged.discard(self.final.name)


def clear(folder: Path) -> None:
    """Remove what killed writers have left, and give a checkpoint that they took out of the way its name again."""
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("step-*.*")):
        if path.suffix == REPLACED and not path.with_suffix("").exists():
            path.rename(path.with_suffix(""))
        elif path.suffix in (PARTIAL, REPLACED, REMOVED):
            shutil.rmtree(path)


def _published(folder: Path) -> list[str]:
    """Newest first."""
    if not folder.is_dir():
        return []
    return sorted((each.name for each in folder.iterdir() if re.fullmatch(r"step-\d{8,}", each.name)), key=_step)[::-1]


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))


# -- the manifest


def _manifest(folder: Path) -> Manifest:
    """What a checkpoint says of itself, or why that cannot be believed."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(MANIFEST_MAX))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: is not JSON: it was cut off or overwritten") from None
    version = said.get("version") if isinstance(said, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"{path}: is of version {version}, and this program reads up to {VERSION}: use a newer one"
        )
    try:
        return _believed(folder, said)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path}: does not say what a manifest of version {VERSION} says") from None


def _believed(folder: Path, said: dict[str, Any]) -> Manifest:
    files = {}
    for name, each in said["files"].items():
        files[name] = File(_of(int, each["bytes"]), _of(str, each["sha256"]))
        if "/" in name or name in (".", ".."):
            raise ValueError(name)
    found = Manifest(
        _of(int, said["step"]), _of(int, said["world"]), _of(str, said["model"]), files, _of(dict, said["told"])
    )
    if said["version"] != VERSION or found.step != _step(folder.name) or METADATA not in files:
        raise ValueError(folder)
    return found


def _of(kind: type[Result], value: Any) -> Result:
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _difference(path: Path, file: File) -> str:
    """What a file has not, that its manifest says it has."""
    try:
        with path.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            if size != file.bytes:
                return f"{path}: has {size} bytes, and {MANIFEST} says {file.bytes}"
            if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                return f"{path}: has not the digest that {MANIFEST} says: its bytes have changed since"
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return ""


# -- bytes on the disk


def _written(path: Path, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
    """Writes the items of a plan into one file, each as torch.distributed.checkpoint reads it."""
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)  # the digest of the file says more, and a second sum costs as much
    spans = []
    try:
        with Stream(path) as stream:
            for item in plan.items:
                begin = stream.bytes
                data = planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    stream.write(data.getbuffer())
                else:
                    torch.save(_alone(data), stream)
                stream.check()
                spans.append((item.index, begin, stream.bytes - begin))
            file = stream.durable()
    finally:
        torch.serialization.set_crc32_options(before)
    return [
        WriteResult(index, length, Written(_StorageInfo(path.name, begin, length), file))
        for index, begin, length in spans
    ]


def _alone(tensor: Tensor) -> Tensor:
    """The tensor without the rest of the memory that it is a part of, which would be written with it."""
    tensor = tensor.detach()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


class Stream:
    """A new file; its digest is taken by another thread while the bytes are written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._digest = hashlib.sha256()
        self._other = concurrent.futures.ThreadPoolExecutor(1)
        self._held = bytearray()
        self._failed: OSError | None = None
        self._written = 0
        self.bytes = 0
        """Of these some may be held."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._other.shutdown()
        os.close(self._fd)

    def write(self, data: Any) -> int:
        """Never raises: torch.save hides what its file raises behind an error of its own. `check` does."""
        size = memoryview(data).nbytes
        if not size or self._failed:
            return size
        view = memoryview(data).cast("B")
        if size > SMALL:
            self._drain()
            self._put(view)
        else:
            self._held += view
            if len(self._held) > BLOCK:
                self._drain()
        self.bytes += size
        return size

    def flush(self) -> None:
        """What is small is held back until there is more of it, or `durable` is asked for."""

    def check(self) -> None:
        if self._failed:
            raise self._failed

    def durable(self) -> File:
        """What was written, once it is on the disk."""
        self._drain()
        self.check()
        os.fsync(self._fd)
        return File(self.bytes, self._digest.hexdigest())

    def _drain(self) -> None:
        held, self._held = self._held, bytearray()
        if held:
            self._put(memoryview(held))

    def _put(self, view: memoryview) -> None:
        digested = self._other.submit(self._digest.update, view)
        try:
            _all(self._fd, view, self._written)
        except OSError as error:
            self._failed = error
        self._written += view.nbytes
        digested.result()


def _all(fd: int, view: memoryview, at: int) -> None:
    """Writes all of it, and lets the disk begin at once: else it stands still until fsync, and then everybody waits."""
    while view:
        size = os.write(fd, view[:BLOCK])
        LIBC.sync_file_range(fd, ctypes.c_int64(at), ctypes.c_int64(size), SYNC_FILE_RANGE_WRITE)
        view, at = view[size:], at + size


def _write(path: Path, content: bytes) -> File:
    """A small file, on the disk."""
    with Stream(path) as stream:
        stream.write(content)
        return stream.durable()


def _sync(folder: Path) -> None:
    """The names in a folder, on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# -- words


ADVICE = {
    errno.ENOSPC: "free some space, or keep fewer checkpoints",
    errno.EDQUOT: "free some space, or keep fewer checkpoints",
    errno.EFBIG: "raise the greatest size of a file (ulimit -f)",
    errno.EACCES: "it must be writable on every node, for the user of the job",
    errno.EPERM: "it must be writable on every node, for the user of the job",
    errno.EROFS: "it must be writable on every node, for the user of the job",
    errno.ENOENT: "checkpoints must be in a directory that all nodes share",
}
SAID_MAX = 3
"""Of ranks that say the same, more or less."""


@contextlib.contextmanager
def _located(rank: int, path: Path) -> Iterator[None]:
    """An error of the system says where it happened: what is shared fails for one node and not for another."""
    try:
        yield
    except OSError as error:
        advice = f": {ADVICE[error.errno]}" if error.errno in ADVICE else ""
        where = error.filename or path
        raise CheckpointError(f"rank {rank} on {_host()}: {where}: {error.strerror}{advice}") from None


def _reasons(failed: CheckpointException) -> list[str]:
    """What each rank that failed says of it."""
    return [
        str(error) if isinstance(error, CheckpointError) else f"rank {rank}: {type(error).__name__}: {error}"
        for rank, (error, _) in sorted(failed.failures.items())
    ]


def _in_short(reasons: list[str]) -> str:
    more = len(reasons) - SAID_MAX
    return "; ".join(reasons[:SAID_MAX]) + (f"; and {more} more ranks" if more > 0 else "")


def _host() -> str:
    return socket.gethostname()
