"""The state of a run on a rank: the weights, and the optimizer's values for each."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import torch
from stampworks_train.part import local
from stampworks_train.snapshot import Sources, pieces_of, read, write
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .settings import Settings

MOMENTS = ("exp_avg", "exp_avg_sq")


class State:
    """Weights and optimizer with its values; its step count is the run's.

    The optimizer works on the local parts: with distributed tensors torch would plan each operation again on each rank,
    for seconds, and could not mix weights of different meshes.
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
        for part in self.here.values():  # an optimizer creates it with the first step, which is too late for a restore
            steps = torch.zeros((), dtype=torch.float32, device=part.device if fused else "cpu")
            self.optimizer.state[part] = {"step": steps, **{name: torch.zeros_like(part) for name in MOMENTS}}
        self.pieces, self.bytes = pieces_of(self.parts())

    def step(self, rate: float) -> None:
        """Changes the weights by their gradients."""
        for name, weight in self.weights.items():
            here, current = self.here[name], local(weight.detach())
            if here.data_ptr() != current.data_ptr():  # torch 2.6 moves unevenly sharded tensors once
                here.data = current
            here.grad = None if weight.grad is None else local(weight.grad)
            weight.grad = None
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def made(self, steps: int) -> None:
        """Set the number of the optimizer's steps."""
        for part in self.here.values():
            self.optimizer.state[part]["step"].fill_(float(steps))

    def durable(self) -> dict[str, dict[str, Tensor]]:
        """Return the state for a checkpoint, in which shards are marked as parts of a whole."""
        moments: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            for moment in MOMENTS:
                here = self.optimizer.state[self.here[name]][moment]
                moments[f"{name}/{moment}"] = as_part(here, weight)
        return {"model": {name: weight.detach() for name, weight in self.weights.items()}, "optimizer": moments}

    def parts(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the local parts: name, weight, and the tensor that holds the part."""
        for name, weight in self.weights.items():
            here = self.here[name]
            for kind, value in (
                ("weight", here.detach()),
                *((each, self.optimizer.state[here][each]) for each in MOMENTS),
            ):
                if value.numel():
                    yield f"{name}/{kind}", weight, value

    def write(self, into: Tensor) -> None:
        """Copies all of it into the bytes of a snapshot; from an accelerator without waiting for it."""
        write(self.pieces, self.parts(), into)

    def read(self, sources: Sources) -> None:
        """Restore the whole state from snapshots of any sharding."""
        read(self.pieces, self.parts(), sources)


def as_part(here: Tensor, weight: Tensor) -> Tensor:
    """A tensor that is cut like a weight."""
    if not isinstance(weight, DTensor):
        return here
    whole: Tensor = DTensor.from_local(
        here, weight.device_mesh, weight.placements, run_check=False, shape=weight.shape, stride=weight.stride()
    )
    return whole


def die_with_parent() -> None:
    """Let the end of the parent end this process."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
