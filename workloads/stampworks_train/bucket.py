"""Checkpoints in a bucket, which cannot rename: a checkpoint counts once its manifest exists, which is written last.

The name of a checkpoint has the step and the attempt, `step-00000120.18f3…`: a repeated one leaves the earlier one
untouched until it is complete. Objects without a manifest were left by a killed writer, and the next one removes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pickle
import re
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .checkpoint import Checkpoints, Found, Writer, described, written
from .manifest import MANIFEST, METADATA, CheckpointError, Manifest, manifest_of, step_of
from .objects import Objects, ahead
from .stream import File

NAME = re.compile(r"step-\d{8,}\.[0-9a-f]+")


class BucketCheckpoints(Checkpoints):
    """The checkpoints of a run below a URL. All ranks call every method."""

    def __init__(self, url: str, keep: int, rank: int, world: int, model: str, wait_s: float = 600.0) -> None:
        super().__init__(Path(), keep, rank, world, model, wait_s)
        self.objects = Objects(url)

    def shown(self, name: str) -> str:
        """Return the URL of an object, for messages."""
        return f"{self.objects.url}/{name}"

    def clear(self) -> None:
        """Remove the remains of killed writers."""
        names = self.objects.sizes()
        whole = {name.partition("/")[0] for name in names if name.endswith(f"/{MANIFEST}")}
        ours = [name for name in names if NAME.fullmatch(name.partition("/")[0])]
        self.objects.remove([name for name in ours if name.partition("/")[0] not in whole])
        self.objects.abandon("step-")

    def _reader(self, found: Found) -> StorageReader:
        return BucketReader(self.objects, found.folder.name)

    def _writer(self, step: int, told: dict[str, Any]) -> Writer:
        return BucketWriter(self, step, told)

    def _published(self) -> list[str]:
        """Sort complete checkpoints, newest first: by step, then by attempt."""
        found = {name.partition("/")[0] for name in self.objects.sizes("step-") if name.endswith(f"/{MANIFEST}")}
        return sorted((name for name in found if NAME.fullmatch(name)), key=_order, reverse=True)

    def _names(self) -> list[str]:
        return self._published()

    def _manifest(self, name: str) -> Manifest:
        return manifest_of(self.objects.get(f"{name}/{MANIFEST}"), f"{self.shown(name)}/{MANIFEST}", name)

    def _foreign(self, _: Path) -> str:
        """Accept any writer: the bucket controls who may write, and an object does not name its writer."""
        return ""

    def _damage(self, name: str, manifest: Manifest) -> str:
        sizes = self.objects.sizes(f"{name}/")
        for each in list(manifest.files)[self.rank :: self.world]:
            file, where = manifest.files[each], f"{self.shown(name)}/{each}"
            size = sizes.get(f"{name}/{each}")
            if size != file.bytes:
                has = "is missing" if size is None else f"has {size} bytes"
                return f"{where}: {has}, and {MANIFEST} says {file.bytes} bytes"
            try:
                if self.objects.crc(f"{name}/{each}", file.bytes) != file.digest:
                    return f"{where}: has not the digest that {MANIFEST} says: its bytes have changed since"
            except CheckpointError as error:
                return str(error)
        return ""

    def _remove(self, name: str) -> None:
        """Delete the manifest first: a partial checkpoint must not look complete."""
        try:
            self.objects.remove([f"{name}/{MANIFEST}"])
            self.objects.remove(list(self.objects.sizes(f"{name}/")))
        except CheckpointError as error:
            self._problem = f"{self.shown(name)}: cannot be removed, though newer ones are there: {error}"


class BucketWriter(Writer):
    """Writer of one checkpoint: each rank writes one object, rank 0 the metadata, and finally the manifest."""

    _of: BucketCheckpoints

    def __init__(self, checkpoints: BucketCheckpoints, step: int, told: dict[str, Any]) -> None:
        super().__init__(checkpoints, step, told)
        self.final = Path(f"step-{step:08}.{time.time_ns():016x}")

    def abandon(self) -> None:
        """Remove the parts of an unfinished checkpoint. Errors are left to the next cleanup."""
        with contextlib.suppress(CheckpointError):  # the next writer removes the rest
            self._of.objects.remove(list(self._of.objects.sizes(f"{self.final}/")))
            self._of.objects.abandon(f"{self.final}/")

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Choose the name on rank 0, because it contains a time."""
        self._of.clear()
        return [dataclasses.replace(plan, storage_data=self.final.name) for plan in plans]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Upload this rank's part. torch calls this; the future is complete on return."""
        self.final = Path(str(plan.storage_data))
        results: list[WriteResult] = []
        if plan.items:
            name = f"__{self._of.rank}_0.distcp"
            with self._of.objects.upload(f"{self.final}/{name}") as stream:
                results = written(stream, name, plan, planner)
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata on rank 0 and publish the checkpoint, unless one of the same step exists."""
        put = self._of.objects.put
        files = described(metadata, results)
        files[METADATA] = put(f"{self.final}/{METADATA}", pickle.dumps(metadata))
        manifest = Manifest(self._step, self._of.world, self._of.model, files, self._told)
        put(f"{self.final}/{MANIFEST}", manifest.text().encode())
        self.bytes = sum(file.bytes for file in files.values())
        for name in self._of._published():
            if step_of(name) == self._step and name != self.final.name and self._of._is_own(name):
                self._of._remove(name)

    def _see(self, files: dict[str, File]) -> None:
        """A bucket is the same for all."""


class BucketReader(StorageReader):
    """Reader of a plan's items by their spans, some in parallel."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name
        self._spans: dict[Any, Any] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Do nothing: each reader belongs to one checkpoint."""

    @classmethod
    def validate_checkpoint_id(cls, _: Any) -> bool:
        """Accept any id: the reader knows its checkpoint."""
        return True

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """Return torch's metadata of the checkpoint."""
        found: Metadata = pickle.loads(self._objects.get(f"{self._name}/{METADATA}"))  # noqa: S301 (of this run)
        return found

    def set_up_storage_reader(self, metadata: Metadata, *_: Any, **__: Any) -> None:
        """Keep the places of tensors in the objects."""
        self._spans = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Keep torch's plan."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Keep torch's plans."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fetch the items of a plan ahead of their use, and copy them into their tensors."""
        spans = [self._spans[item.storage_index] for item in plan.items]
        asked = [(f"{self._name}/{span.relative_path}", span.offset, span.length) for span in spans]
        for item, content in zip(plan.items, ahead(self._objects.threads, asked, self._objects.get), strict=True):
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(content))
                continue
            tensor = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            target = planner.resolve_tensor(item).detach()
            target.copy_(narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths))
            planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future


def _order(name: str) -> tuple[int, str]:
    return step_of(name), name.partition(".")[2]
