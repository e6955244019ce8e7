"""The state of a rank as bytes, in and out of memory that outlives the rank.

A snapshot has the bytes of all pieces one after the other. A piece knows its place in the whole, so that the snapshots
of any number of ranks can be joined for any other number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from .part import place

ALIGNMENT = 64

Piece = tuple[str, list[int], list[int], str, int]
"""Name, offset in its whole, shape, type of numbers, and offset of its bytes in a snapshot."""
Sources = Callable[[str], Iterable[tuple[Piece, Tensor]]]
"""Pieces of a name, and the snapshot of each."""
Part = tuple[str, Tensor, Tensor]
"""A name, the tensor with the place of this rank's part, and the part itself."""


def pieces_of(parts: Iterable[Part]) -> tuple[list[Piece], int]:
    """The pieces of a snapshot of these parts, and its bytes."""
    found: list[Piece] = []
    at = 0
    for name, whole, here in parts:
        found.append((name, place(whole), list(here.shape), str(here.dtype).removeprefix("torch."), at))
        at += math.ceil(here.numel() * here.element_size() / ALIGNMENT) * ALIGNMENT
    return found, at


def write(pieces: Sequence[Piece], parts: Iterable[Part], into: Tensor) -> None:
    """Copy all parts into the bytes of a snapshot; from an accelerator without waiting for it."""
    there = (seen(into, at, shape, kind) for _, _, shape, kind, at in pieces)
    copy_all(list(zip(there, (here for _, _, here in parts), strict=True)))


def read(pieces: Sequence[Piece], parts: Iterable[Part], sources: Sources) -> None:
    """Restore all parts from snapshots, of this sharding or another."""
    pairs: list[tuple[Tensor, Tensor]] = []
    for (name, start, shape, _, _), (_, _, value) in zip(pieces, parts, strict=True):
        missing = value.numel()
        for piece, snapshot in sources(name):
            if same := _shared(value, start, shape, piece, snapshot):
                pairs.append(same)
                missing -= same[0].numel()
        if missing > 0:
            raise ValueError(f"{name}: {missing} of {value.numel()} numbers are in no snapshot")
    copy_all(pairs)
    if pairs and pairs[0][0].is_cuda:
        torch.cuda.current_stream().synchronize()  # memory of snapshots may be freed then


def _shared(
    value: Tensor, start: Sequence[int], shape: Sequence[int], piece: Piece, snapshot: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return the overlap with a piece of another sharding: the part of this one, and the same numbers in the
    snapshot."""
    _, other_start, other_shape, kind, at = piece
    here, there = [], []
    for own, size, other, other_size in zip(start, shape, other_start, other_shape, strict=True):
        first, end = max(own, other), min(own + size, other + other_size)
        if first >= end:
            return None
        here.append(slice(first - own, end - own))
        there.append(slice(first - other, end - other))
    return value[tuple(here)], seen(snapshot, at, other_shape, kind)[tuple(there)]


def copy_all(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copy the second of each pair into the first. A device gets one call, without a wait."""
    if pairs:
        into, of = zip(*pairs, strict=True)
        with torch.no_grad():
            torch._foreach_copy_(into, of, non_blocking=True)


def overlaps(one: Piece, other: Piece) -> bool:
    """Whether two pieces of the same name have a number in common."""
    return all(max(a, b) < min(a + m, b + n) for a, m, b, n in zip(one[1], one[2], other[1], other[2], strict=True))


def seen(snapshot: Tensor, at: int, shape: Sequence[int], kind: str) -> Tensor:
    """The bytes of a piece as numbers."""
    dtype = getattr(torch, kind)
    size = math.prod(shape) * dtype.itemsize
    return snapshot[at : at + size].view(dtype).view(list(shape))


def sources_of(snapshots: Mapping[int, tuple[Sequence[Piece], Tensor]]) -> Sources:
    """The pieces of all snapshots by name, each once: some are held by several ranks."""
    by_name: dict[str, dict[str, tuple[Piece, Tensor]]] = {}
    for pieces, tensor in snapshots.values():
        for piece in pieces:
            by_name.setdefault(piece[0], {})[str(piece[1:3])] = (piece, tensor)
    return lambda name: by_name.get(name, {}).values()
