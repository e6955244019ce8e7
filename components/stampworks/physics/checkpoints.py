"""Size of a checkpoint, and the time to write and read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stampworks import catalog
from stampworks.physics.bounds import Bound, UnknownFactError, figure
from stampworks.text.amounts import many


@dataclass(frozen=True)
class ParameterBytes:
    """Bytes per parameter, during training and in a checkpoint."""

    name: str
    weights: int
    gradients: int
    optimizer: int
    """Moments of Adam, and a copy of the weights if they are kept twice."""
    saved: int
    why: str
    """The contents of a checkpoint."""

    @property
    def trained(self) -> int:
        """Bytes of a parameter on the accelerators during training."""
        return self.weights + self.gradients + self.optimizer


OURS = ParameterBytes(
    name="float32 weights",
    weights=4,
    gradients=4,
    optimizer=8,
    saved=12,
    why="float32 weights (4) and Adam's two moments (4 + 4), as `stampworks submit training` writes them",
)
COPIED = ParameterBytes(
    name="bfloat16 weights with a float32 copy",
    weights=2,
    gradients=2,
    optimizer=12,
    saved=14,
    why="bfloat16 weights (2), a float32 copy (4) and Adam's two moments (4 + 4), as Megatron-DeepSpeed writes them",
)


def checkpoint_bytes(parameters: int, recipe: ParameterBytes = OURS) -> Bound:
    """Return the exact size of a checkpoint."""
    return Bound(parameters * recipe.saved, f"{many(parameters)} parameters x {recipe.saved} bytes: {recipe.why}")


def write_seconds(size_bytes: float, storage: Bound) -> Bound:
    """Return the time in which all ranks together write their parts to a storage of this rate."""
    return _seconds(size_bytes, storage, "written")


def read_seconds(size_bytes: float, copies: int, storage: Bound) -> Bound:
    """Return the time of reading after a restart: each rank that holds the same part reads it."""
    return _seconds(size_bytes * copies, storage, "read" if copies == 1 else f"read {copies} times over")


def _seconds(size_bytes: float, storage: Bound, done: str) -> Bound:
    value = size_bytes / 1e9 / storage.value
    return Bound(value, f"{figure(size_bytes / 1e9)} GB {done} at {figure(storage.value)} GB/s: {storage.why}")


def reachable(storage: Bound | catalog.Unknown, clients: Sequence[tuple[int, Bound | catalog.Unknown]]) -> Bound:
    """Return the lower of two limits in GB/s: of the storage, and of its clients, given as pairs (nodes, rate of each).

    A known limit applies even if the other is unknown. Raise UnknownFactError if both are.
    """
    reached = [(nodes, each) for nodes, each in clients if isinstance(each, Bound)]
    if len(reached) < len(clients):
        if isinstance(storage, catalog.Unknown):
            raise UnknownFactError("the catalog has neither the rate of the storage nor that of its clients")
        return Bound(storage.value, f"{storage.why}; the rate of its clients is unknown, and may be lower")
    total = sum(nodes * each.value for nodes, each in reached)
    why = " + ".join(f"{nodes} x {figure(each.value)} GB/s, {each.why}" for nodes, each in reached)
    if isinstance(storage, catalog.Unknown):
        return Bound(total, f"{why}; the rate of the storage is unknown, and may be lower")
    return min(storage, Bound(total, why), key=lambda bound: bound.value)
