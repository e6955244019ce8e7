"""Manifest of a checkpoint, and the check of its files against it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from .stream import BLOCK, File

DIGESTS = {1: "sha256", 2: "crc32"}
"""Kind of digest of a file's bytes, by the version of a manifest."""
VERSION = max(DIGESTS)
"""Version of the manifests that are written; older ones are read."""
MANIFEST, METADATA = "manifest.json", ".metadata"
MANIFEST_MAX = 2**26

Kind = TypeVar("Kind")


class CheckpointError(Exception):
    """Damage of a checkpoint: its place, and a remedy."""


@dataclass(frozen=True)
class Manifest:
    """Contents of a checkpoint."""

    step: int
    world: int
    model: str
    files: dict[str, File]
    told: dict[str, Any]
    version: int = VERSION

    def text(self) -> str:
        """Return the manifest as JSON, as it is stored."""
        named = {name: {"bytes": each.bytes, DIGESTS[self.version]: each.digest} for name, each in self.files.items()}
        return json.dumps({**asdict(self), "files": named}, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint, or raise CheckpointError with the reason."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            content = file.read(MANIFEST_MAX)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    return manifest_of(content, str(path), folder.name)


def manifest_of(content: bytes, path: str, name: str) -> Manifest:
    """The manifest of the checkpoint with this name, or why it cannot be believed."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: is not JSON: it was cut off or overwritten") from None
    version = said.get("version") if isinstance(said, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"{path}: is of version {version}, and this program reads up to {VERSION}: use a newer one"
        )
    try:
        return _believed(name, said)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path}: does not say what a manifest of version {VERSION} says") from None


def _believed(checkpoint: str, said: dict[str, Any]) -> Manifest:
    version = _checked(int, said["version"])
    files = {}
    for name, each in said["files"].items():
        files[name] = File(_checked(int, each["bytes"]), _checked(str, each[DIGESTS[version]]))
        if "/" in name or name in (".", ".."):
            raise ValueError(name)
    plain = _checked(int, said["step"]), _checked(int, said["world"]), _checked(str, said["model"])
    found = Manifest(*plain, files, _checked(dict, said["told"]), version)
    if found.step != step_of(checkpoint) or METADATA not in files:
        raise ValueError(checkpoint)
    return found


def _checked(kind: type[Kind], value: Any) -> Kind:
    if type(value) is not kind:
        raise TypeError(value)
    return value


def difference(path: Path, file: File, kind: str) -> str:
    """Return the difference of a file from its entry in the manifest."""
    try:
        with path.open("rb", buffering=0) as opened:
            size = os.fstat(opened.fileno()).st_size
            if size != file.bytes:
                return f"{path}: has {size} bytes, and {MANIFEST} says {file.bytes}"
            if _digest(opened, kind) != file.digest:
                return f"{path}: has not the digest that {MANIFEST} says: its bytes have changed since"
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return ""


def _digest(opened: io.RawIOBase, kind: str) -> str:
    if kind != "crc32":
        return hashlib.file_digest(opened, kind).hexdigest()
    found, block = 0, bytearray(BLOCK)
    with memoryview(block) as seen:
        while size := opened.readinto(seen):
            found = zlib.crc32(seen[:size], found)
    return f"{found:08x}"


def step_of(name: str) -> int:
    """A name in a bucket has the attempt after the step."""
    return int(name.removeprefix("step-").partition(".")[0])
