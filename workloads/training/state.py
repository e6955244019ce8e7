"""The state of a run as it lies on one rank, in and out of memory that outlives the rank.

A snapshot is the bytes of all pieces one after the other. A piece says where it belongs in its whole, so that the
snapshots of any number of ranks make up the state of any other number.
"""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .keeper import reserved
from .part import local, place
from .settings import Settings

MOMENTS = ("exp_avg", "exp_avg_sq")
ALIGNMENT = 64
FAULTING = 8
"""Threads that get pages."""
POPULATE = 23
"""What Linux calls MADV_POPULATE_WRITE, and Python has no name for yet."""

Piece = tuple[str, list[int], list[int], str, int]
"""Name, where it begins in its whole, its shape, its kind of number, where its bytes begin in a snapshot."""
Sources = Callable[[str], Iterable[tuple[Piece, Tensor]]]
"""The pieces of one name, and the snapshot each lies in."""


class State:
    """The weights, and the optimizer with what it remembers of each; its steps are the run's.

    The optimizer works on the parts that are here: with distributed tensors torch would think about each operation anew
    in each rank, for seconds, and could not mix weights of different meshes.
    """

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        named = dict(model.named_parameters())
        self.weights = named
        self.here = {name: nn.Parameter(local(weight.detach())) for name, weight in named.items()}
        matrices = [self.here[name] for name, weight in named.items() if weight.dim() > 1]
        others = [self.here[name] for name, weight in named.items() if weight.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": settings.decay}, {"params": others, "weight_decay": 0.0}]
        fused = next(iter(self.here.values())).is_cuda
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=fused)
        for part in self.here.values():  # as it makes it with its first step, which is too late to bring one back
            steps = torch.zeros((), dtype=torch.float32, device=part.device if fused else "cpu")
            self.optimizer.state[part] = {"step": steps, **{name: torch.zeros_like(part) for name in MOMENTS}}
        self.pieces, self.bytes = self._pieces()

    def step(self, rate: float) -> None:
        """Changes the weights by their gradients."""
        for name, weight in self.weights.items():
            here, current = self.here[name], local(weight.detach())
            if here.data_ptr() != current.data_ptr():  # torch 2.6 moves what is cut unevenly, once
                here.data = current
            here.grad = None if weight.grad is None else local(weight.grad)
            weight.grad = None
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def made(self, steps: int) -> None:
        """Tells the optimizer how many steps it has made."""
        for part in self.here.values():
            self.optimizer.state[part]["step"].fill_(float(steps))

    def durable(self) -> dict[str, dict[str, Tensor]]:
        """As it goes into a checkpoint: what is cut stays known as a part of the whole."""
        moments: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            for moment in MOMENTS:
                here = self.optimizer.state[self.here[name]][moment]
                moments[f"{name}/{moment}"] = as_part(here, weight)
        return {"model": {name: weight.detach() for name, weight in self.weights.items()}, "optimizer": moments}

    def parts(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """What is here: its name, the weight that it is of, and the tensor that holds it."""
        for name, weight in self.weights.items():
            here = self.here[name]
            for kind, value in (
                ("weight", here.detach()),
                *((each, self.optimizer.state[here][each]) for each in MOMENTS),
            ):
                if value.numel():
                    yield f"{name}/{kind}", weight, value

    def _pieces(self) -> tuple[list[Piece], int]:
        found: list[Piece] = []
        at = 0
        for name, weight, here in self.parts():
            found.append((name, place(weight), list(here.shape), str(here.dtype).removeprefix("torch."), at))
            at += math.ceil(here.numel() * here.element_size() / ALIGNMENT) * ALIGNMENT
        return found, at

    def write(self, into: Tensor) -> None:
        """Copies all of it into the bytes of a snapshot; from an accelerator without waiting for it."""
        there = (seen(into, at, shape, kind) for _, _, shape, kind, at in self.pieces)
        copy_all(list(zip(there, (here for _, _, here in self.parts()), strict=True)))

    def read(self, sources: Sources) -> None:
        """Takes all of it from snapshots, of this cut or another."""
        pairs: list[tuple[Tensor, Tensor]] = []
        for (name, start, shape, _, _), (_, _, value) in zip(self.pieces, self.parts(), strict=True):
            missing = value.numel()
            for piece, snapshot in sources(name):
                if same := _shared(value, start, shape, piece, snapshot):
                    pairs.append(same)
                    missing -= same[0].numel()
            if missing > 0:
                raise ValueError(f"{name}: {missing} of {value.numel()} numbers are in no snapshot")
        copy_all(pairs)
        if pairs and pairs[0][0].is_cuda:
            torch.cuda.current_stream().synchronize()  # what snapshots lie in may go then


def as_part(here: Tensor, weight: Tensor) -> Tensor:
    """A tensor that is cut like a weight."""
    if not isinstance(weight, DTensor):
        return here
    whole: Tensor = DTensor.from_local(
        here, weight.device_mesh, weight.placements, run_check=False, shape=weight.shape, stride=weight.stride()
    )
    return whole


def _shared(
    value: Tensor, start: Sequence[int], shape: Sequence[int], piece: Piece, snapshot: Tensor
) -> tuple[Tensor, Tensor] | None:
    """What a piece of another cut has of this one: that part of it, and the same numbers in the snapshot."""
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
    """The second of each pair into the first. A device is told of all in one call, and is not waited for."""
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


class Memory:
    """A file in shared memory as a tensor of bytes. Pinned where an accelerator copies into it."""

    def __init__(self, path: Path, size: int, pinned: bool = False) -> None:
        """An empty `size` takes what is there."""
        self.path = path
        with path.open("r+b" if path.exists() else "w+b") as file:
            if size:
                reserved(file.fileno(), size, path)
            self._map = mmap.mmap(file.fileno(), 0)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)
        if size:
            fault_in(self.tensor)
        if pinned:
            failed = torch.cuda.cudart().cudaHostRegister(self.tensor.data_ptr(), self.tensor.numel(), 0)
            if int(failed):
                raise MemoryError(f"{path}: {self.tensor.numel()} bytes cannot be pinned: is `ulimit -l` large enough?")


def fault_in(memory: Tensor) -> None:
    """Gets all pages of fresh memory, by several threads at once.

    Whoever writes into it, or pins it, else waits for one page after the other: 8 GiB took 4.9 s, and so they take 2.2.
    """
    share = mmap.PAGESIZE * math.ceil(memory.numel() / mmap.PAGESIZE / FAULTING)
    with ThreadPoolExecutor(FAULTING) as threads:
        list(threads.map(populate, memory.split(share)))


def populate(part: Tensor) -> None:
    """The same by this thread; others may run meanwhile."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    inside = part.data_ptr() % mmap.PAGESIZE
    start, size = ctypes.c_void_p(part.data_ptr() - inside), ctypes.c_size_t(part.nbytes + inside)
    if libc.madvise(start, size, POPULATE) == 0:
        return
    if (failed := ctypes.get_errno()) != errno.EINVAL:
        raise MemoryError(f"{part.nbytes:,} bytes of memory cannot be had: {os.strerror(failed)}")
    part.flatten().view(torch.uint8)[:: mmap.PAGESIZE].add_(0)  # Linux before 5.14 cannot be asked for it


def sources_of(snapshots: Mapping[int, tuple[Sequence[Piece], Tensor]]) -> Sources:
    """The pieces of all snapshots by name, each once: some are held by several ranks."""
    by_name: dict[str, dict[str, tuple[Piece, Tensor]]] = {}
    for pieces, tensor in snapshots.values():
        for piece in pieces:
            by_name.setdefault(piece[0], {})[str(piece[1:3])] = (piece, tensor)
    return lambda name: by_name.get(name, {}).values()


def die_with_parent() -> None:
    """Whoever started this process takes it along."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
