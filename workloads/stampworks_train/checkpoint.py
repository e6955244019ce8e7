"""Checkpoints that survive the run: written in the background, published completely or not at all, and verified when
read.

A checkpoint is a folder `step-00000120` in the format of torch.distributed.checkpoint, which its tools read, and a
manifest with the digest of every file. It is written as `step-00000120.partial`. Each file is on the disk before the
folder gets its name, and a named folder is removed only after newer ones are named. A killed writer leaves an unnamed
folder, which the next one removes. The digest of a file is its CRC-32: it finds torn or changed files, and costs less
CPU than SHA-256. It does not stop a deliberate change, and SHA-256 beside the files would not either: files of another
user are not read.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import errno
import functools
import os
import pickle
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

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

from .manifest import DIGESTS, MANIFEST, METADATA, CheckpointError, Manifest, difference, read_manifest, step_of
from .memory import populate
from .snapshot import copy_all
from .stream import File, Stream, make, sync, write

PARTIAL, REPLACED, REMOVED = ".partial", ".replaced", ".removed"
Result = TypeVar("Result")


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was published."""

    step: int
    bytes: int
    seconds: float
    """Seconds from the beginning of the save to its publication."""
    blocked_s: float
    """Seconds of them in which training waited."""
    folder: Path


@dataclass(frozen=True)
class Found:
    """A checkpoint that is whole."""

    step: int
    folder: Path
    world: int
    """The number of ranks that wrote it."""
    told: dict[str, Any]
    """Values that were passed to `save`."""
    passed_over: tuple[str, ...]
    """Reasons why newer checkpoints are unusable."""


class Checkpoints:
    """The checkpoints of a run in a folder that all ranks see. All ranks call every method."""

    def __init__(self, folder: Path, keep: int, rank: int, world: int, model: str, wait_s: float = 600.0) -> None:
        self.folder, self.keep, self.rank, self.world, self.model = folder, keep, rank, world, model
        # The default group belongs to training: a save in the background would wait for the step's collectives.
        waiting = datetime.timedelta(seconds=wait_s)
        self._group = dist.new_group(backend="gloo", timeout=waiting) if dist.is_initialized() else None
        self._staging = Staging()
        self._preparing: threading.Thread | None = None
        self._no_room: Exception | None = None
        self._saving: threading.Thread | None = None
        self._copied = threading.Event()
        self._copied.set()
        self._blocked_s = 0.0
        """Seconds that the current save has blocked training."""
        self._uncopied: Exception | None = None
        self._saved: Saved | None = None
        self._problem: str | None = None
        self._causes: frozenset[str] = frozenset()
        self._damaged: set[str] = set()

    def shown(self, name: str) -> str:
        """Return the path of a checkpoint."""
        return str(self.folder / name)

    def prepare(self, state: dict[str, Any]) -> None:
        """Begin to allocate memory for copies of this state, in the background of other work.

        Pinning memory takes 0.75 s for each GB: when the first save did it, training waited 4.7 s for 6.4 GB.
        """
        self._preparing = threading.Thread(target=self._make_room, args=(state,), daemon=True)
        self._preparing.start()

    def save(self, state: dict[str, Any], step: int, told: dict[str, Any]) -> float:
        """Begin to copy the state, and to write the copy; return the seconds this took, without the wait for the
        previous copy.

        The next step may read the state meanwhile, and change it when `copied` returns.
        """
        self.finish()
        begun = time.perf_counter()
        self._blocked_s = 0.0
        self._check_room()
        self._copied.clear()
        staged, fill = self._staging.copy(state)
        self._saving = threading.Thread(target=self._save, args=(staged, fill, step, told, begun), daemon=True)
        self._saving.start()
        return self._blocked_since(begun)

    def copied(self) -> float:
        """Wait until the state of a running save may change, and return the seconds. Raise the error of a failed
        copy."""
        seconds = 0.0
        if not self._copied.is_set():
            begun = time.perf_counter()
            self._copied.wait()
            seconds = self._blocked_since(begun)
        self._check_copy()
        return seconds

    def _blocked_since(self, begun: float) -> float:
        seconds = time.perf_counter() - begun
        self._blocked_s += seconds
        return seconds

    def finish(self) -> None:
        """Wait until the running save is published or has failed."""
        if self._saving:
            self._saving.join()
            self._saving = None
        self._check_copy()

    def _check_copy(self) -> None:
        """Raise the error of a failed copy. The rank must not continue: the others wait for it in the save."""
        if self._uncopied:
            raise self._uncopied

    def _make_room(self, state: dict[str, Any]) -> None:
        try:
            self._staging.make_room(state)
        except Exception as error:
            self._no_room = error

    def _check_room(self) -> None:
        """Wait for the memory of the first save, or return why there is none."""
        if self._preparing:
            self._preparing.join()
            self._preparing = None
        if self._no_room:
            raise self._no_room

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is being written now."""
        return self._saving is not None and self._saving.is_alive()

    def done(self) -> Saved | None:
        """The newest that was published since this was asked last."""
        saved, self._saved = self._saved, None
        return saved

    def problem(self) -> str | None:
        """Return why a checkpoint was not saved. The same reason is returned once, until one is saved again."""
        problem, self._problem = self._problem, None
        return problem

    def newest(self) -> Found | None:
        """Return the newest complete checkpoint of this model; None if there is none at all.

        Raise CheckpointError if none of the existing ones is usable: a new run would replace them in time.
        """
        self.finish()
        names = self._together(self._names)
        passed_over: list[str] = []
        for name in names:
            manifest, why = self._together(functools.partial(self._described, name))
            if manifest:
                problems = [each for each in self._all_results(functools.partial(self._damage, name, manifest)) if each]
                if not problems:
                    return Found(manifest.step, self.folder / name, manifest.world, manifest.told, tuple(passed_over))
                why = _joined_reasons(problems)
                self._damaged.add(name)
            passed_over.append(why)
        if passed_over:
            raise CheckpointError(
                f"{self.shown('').rstrip('/')}: none of {len(names)} checkpoints can be used:\n"
                + "".join(f"  {problem}\n" for problem in passed_over)
                + "Name another directory to begin anew, or move them away."
            )
        return None

    def load(self, found: Found, state: dict[str, Any]) -> dict[str, Any]:
        """Load a checkpoint into the tensors of a state, on any number of ranks, and return the values saved with
        it."""
        try:
            dcp.load(state, storage_reader=self._reader(found), process_group=self._group)
        except CheckpointException as refused:
            raise CheckpointError(
                f"{self.shown(found.folder.name)}: does not fit this state: {_joined_reasons(_reasons(refused))}"
            ) from refused
        return found.told

    def _reader(self, found: Found) -> dcp.StorageReader:
        return dcp.FileSystemReader(found.folder)

    # -- saving, in a thread

    def _writer(self, step: int, told: dict[str, Any]) -> Writer:
        return Writer(self, step, told)

    def _published(self) -> list[str]:
        """Newest first."""
        return _published(self.folder)

    def _manifest(self, name: str) -> Manifest:
        return read_manifest(self.folder / name)

    def _save(
        self, staged: dict[str, Any], fill: Callable[[], None], step: int, told: dict[str, Any], begun: float
    ) -> None:
        writer = self._writer(step, told)
        try:
            try:
                fill()
            except Exception as error:
                self._uncopied = error
                return
            finally:
                self._copied.set()
            dcp.save(staged, storage_writer=writer, process_group=self._group)
            size = self._together(lambda: writer.bytes)
            self._saved = Saved(step, size, time.perf_counter() - begun, self._blocked_s, writer.final)
            self._causes = frozenset()
        except CheckpointException as failed:
            self._failed(writer, _reasons(failed))
        except Exception as error:
            self._failed(writer, [f"rank {self.rank}: {type(error).__name__}: {error}"])
        else:
            if not self.rank:
                self._tidy(writer.final, step)

    def _tidy(self, saved: Path, step: int) -> None:
        try:
            self._retain(step)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            unknown = "was saved, and which older ones can be removed could not be found out"
            self._problem = f"{self.shown(saved.name)}: {unknown}: {why}"

    def _failed(self, writer: Writer, reasons: list[str]) -> None:
        if not self.rank:
            writer.abandon()
        causes = frozenset(re.sub(r"\d+", "", reason) for reason in reasons)  # the same reason for any step and rank
        if causes != self._causes:
            self._problem = (
                f"{self.shown(writer.final.name)}: was not saved, and training goes on: {_joined_reasons(reasons)}. "
                "Earlier ones are kept, and the next one is tried again."
            )
        self._causes = causes

    def _retain(self, step: int) -> None:
        """Remove all but the newest checkpoints, which include the published one.

        A checkpoint of a higher step is damaged, or will be replaced: the run continued from an earlier one.
        """
        names = [name for name in self._published() if step_of(name) <= step]
        own = [name for name in names if name not in self._damaged and self._is_own(name)]
        for name in own[self.keep :]:
            self._remove(name)
        oldest = step_of(own[self.keep - 1]) if len(own) > self.keep else 0
        for name in self._damaged & {name for name in names if step_of(name) < oldest}:
            self._remove(name)

    def _is_own(self, name: str) -> bool:
        try:
            return self._manifest(name).model == self.model
        except CheckpointError:
            return False

    def _remove(self, name: str) -> None:
        """Remove a checkpoint. Rename it first, so that a partly deleted one is not read."""
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
        """Return the manifest of a checkpoint of this model, else the reason why it is none."""
        if foreign := self._foreign(self.folder / name):
            return None, foreign
        try:
            manifest = self._manifest(name)
        except CheckpointError as error:
            return None, str(error)
        if manifest.model != self.model:
            return None, f"{self.shown(name)}: is of another model ({manifest.model}) than this run's ({self.model})"
        return manifest, ""

    def _foreign(self, folder: Path) -> str:
        """Return the reason if another user wrote it: reading its metadata runs the writer's code."""
        # the file system may map this user's id: a new file shows which owner it gives
        with tempfile.TemporaryFile(dir=self.folder) as file:
            own = os.fstat(file.fileno()).st_uid
        for path in (folder, folder / MANIFEST, folder / METADATA):
            with contextlib.suppress(OSError):
                if (owner := path.lstat().st_uid) != own:
                    return f"{path}: belongs to user {owner}, and this run's files to {own}: is it the right directory?"
        return ""

    def _damage(self, name: str, manifest: Manifest) -> str:
        """Return the damage of this rank's part of the files: as many ranks as wrote them check one each."""
        mine = list(manifest.files)[self.rank :: self.world]
        kind = DIGESTS[manifest.version]
        problems = (difference(self.folder / name / each, manifest.files[each], kind) for each in mine)
        return next(filter(None, problems), "")

    # -- together

    def _together(self, work: Callable[[], Result]) -> Result:
        """Return the result of rank 0 on every rank."""
        found: list[Any] = [None]
        if not self.rank:
            try:
                found = [(work(), None)]
            except OSError as error:
                shared = "checkpoints must be in a directory that all ranks can read and write"
                found = [(None, f"{error.filename}: {error.strerror}: {shared}")]
            except CheckpointError as error:
                found = [(None, str(error))]
        if self._group:
            dist.broadcast_object_list(found, 0, group=self._group)
        result, problem = found[0]
        if problem:
            raise CheckpointError(problem)
        return result  # type: ignore[no-any-return]

    def _all_results(self, work: Callable[[], Result]) -> Sequence[Result]:
        """Return the results of all ranks on every rank."""
        found: list[Any] = [work()]
        if self._group:
            own, found = found[0], [None] * self.world
            dist.all_gather_object(found, own, group=self._group)
        return found


class Staging:
    """Copies of a state in memory of the host, which the next copy uses again: fresh memory is slow the first time."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[Any, ...], Tensor] = {}

    def make_room(self, state: dict[str, Any]) -> None:
        """Allocate memory for the first copy of a state with these shapes."""
        pairs: list[tuple[Tensor, Tensor]] = []
        self._copied(state, (), pairs)
        for buffer, value in pairs:
            if value.is_cpu:  # otherwise it is pinned, and its pages exist
                populate(buffer)

    def copy(self, state: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], None]]:
        """Return a copy of the state, and the work that fills it, for a thread that runs while others read the
        state."""
        pairs: list[tuple[Tensor, Tensor]] = []
        copied = self._copied(state, (), pairs)
        queued = torch.cuda.current_stream().record_event() if any(each.is_cuda for _, each in pairs) else None
        return copied, functools.partial(_fill, pairs, queued)

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
            with torch.cuda.device_of(value):  # the current device of a thread is the first one, not its rank's
                buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[place] = buffer
        pairs.append((buffer, value))
        return buffer


def _fill(pairs: list[tuple[Tensor, Tensor]], queued: torch.cuda.Event | None) -> None:
    """Copy tensors. An accelerator copies during its next step, after the `queued` work."""
    stream = torch.cuda.Stream(queued.device) if queued else None
    if stream and queued:
        stream.wait_event(queued)
    others = []
    for mine, theirs in pairs:
        if theirs.is_cpu and theirs.is_contiguous():  # half as fast again as a copy by torch, which fills caches
            ctypes.memmove(mine.data_ptr(), theirs.data_ptr(), theirs.nbytes)
        else:
            others.append((mine, theirs))
    with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
        copy_all(others)
    if stream:
        stream.synchronize()


@dataclass(frozen=True)
class Written:
    """The place of an item in a file."""

    item: _StorageInfo
    file: File


class Writer(StorageWriter):
    """Writer of one checkpoint: each rank writes one file, rank 0 the metadata, and finally the name."""

    def __init__(self, checkpoints: Checkpoints, step: int, told: dict[str, Any]) -> None:
        self._of, self._told, self._step = checkpoints, told, step
        self.final = checkpoints.folder / f"step-{step:08}"
        self.folder = self.final.with_name(self.final.name + PARTIAL)
        self.bytes = 0
        """Size of all files, known to rank 0 when they are published."""

    def abandon(self) -> None:
        """Remove the files of an unfinished checkpoint."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Do nothing: each writer belongs to one checkpoint."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the folder already exists."""

    @classmethod
    def validate_checkpoint_id(cls, _: str | os.PathLike[str]) -> bool:
        """Accept any id: the writer knows its checkpoint."""
        return True

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Keep torch's plan."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Create the folder on rank 0, before any rank writes."""
        with _located(self._of.rank, self.folder):
            make(self.folder.parent)
            clear(self.folder.parent)
            self.folder.mkdir()
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's part. torch calls this; the future is complete on return."""
        results: list[WriteResult] = []
        if plan.items:
            path = self.folder / f"__{self._of.rank}_0.distcp"
            with _located(self._of.rank, path), self._stream(path) as stream:
                results = written(stream, path.name, plan, planner)
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def _stream(self, path: Path) -> Stream:
        return Stream(path)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata on rank 0 and publish the checkpoint."""
        with _located(self._of.rank, self.folder):
            files = described(metadata, results)
            self._see(files)
            files[METADATA] = write(self.folder / METADATA, pickle.dumps(metadata))
            manifest = Manifest(self._step, self._of.world, self._of.model, files, self._told)
            write(self.folder / MANIFEST, manifest.text().encode())
            sync(self.folder)
            self._publish()
            self.bytes = sum(file.bytes for file in files.values())

    def _see(self, files: dict[str, File]) -> None:
        """Wait until every rank's file is in the shared folder."""
        for name, file in files.items():
            path = self.folder / name
            if not path.exists() or path.stat().st_size != file.bytes:
                raise CheckpointError(
                    f"{path}: another rank has written it, and rank 0 on {_host()} does not see it: "
                    "checkpoints must be in a directory that all nodes share"
                )

    def _publish(self) -> None:
        """Remove an existing checkpoint of the same step only when this one can take its name at once."""
        replaced = self.final.with_name(self.final.name + REPLACED)
        if self.final.exists():
            if not self._of._is_own(self.final.name) and self.final.name not in self._of._damaged:
                raise CheckpointError(f"{self.final}: is there already, and is not of this model: move it away")
            self.final.rename(replaced)
        self.folder.rename(self.final)
        sync(self.final.parent)
        shutil.rmtree(replaced, ignore_errors=True)
        self._of._damaged.discard(self.final.name)


def clear(folder: Path) -> None:
    """Remove the remains of killed writers, and restore the name of a checkpoint that they moved aside."""
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
    names = [each.name for each in folder.iterdir() if re.fullmatch(r"step-\d{8,}", each.name)]
    return sorted(names, key=step_of, reverse=True)


class Sink(Protocol):
    """A new file, which is safe when `durable` returns."""

    bytes: int

    def write(self, data: Any) -> int:
        """Take bytes and return their number."""

    def flush(self) -> None:
        """Do nothing before the end: torch calls this after each item."""

    def check(self) -> None:
        """Raise the error of a write that failed in the background."""

    def durable(self) -> File:
        """Wait until all bytes are durable, and return their number and digest."""


def written(stream: Sink, name: str, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
    """Write the items of a plan into one file, each in the form of torch.distributed.checkpoint."""
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)  # the file's digest says more, and a second checksum costs as much
    spans = []
    try:
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
        WriteResult(index, length, Written(_StorageInfo(name, begin, length), file)) for index, begin, length in spans
    ]


def described(metadata: Metadata, results: list[list[WriteResult]]) -> dict[str, File]:
    """Write the places of all items and files into the metadata."""
    found = [result for each in results for result in each]
    metadata.storage_data = {result.index: result.storage_data.item for result in found}
    return {result.storage_data.item.relative_path: result.storage_data.file for result in found}


def _alone(tensor: Tensor) -> Tensor:
    """Return the tensor in its own memory: otherwise the whole storage would be written with it."""
    tensor = tensor.detach()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


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
"""Ranks that are named for the same reason."""


@contextlib.contextmanager
def _located(rank: int, path: Path) -> Iterator[None]:
    """Add node and path to system errors: shared storage may fail on one node only."""
    try:
        yield
    except OSError as error:
        advice = f": {ADVICE[error.errno]}" if error.errno in ADVICE else ""
        where = error.filename or path
        raise CheckpointError(f"rank {rank} on {_host()}: {where}: {error.strerror}{advice}") from None


def _reasons(failed: CheckpointException) -> list[str]:
    """Return the reason of each rank that failed."""
    return [
        str(error) if isinstance(error, CheckpointError) else f"rank {rank}: {type(error).__name__}: {error}"
        for rank, (error, _) in sorted(failed.failures.items())
    ]


def _joined_reasons(reasons: list[str]) -> str:
    more = len(reasons) - SAID_MAX
    return "; ".join(reasons[:SAID_MAX]) + (f"; and {more} more ranks" if more > 0 else "")


def _host() -> str:
    return socket.gethostname()
