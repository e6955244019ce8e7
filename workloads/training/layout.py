"""Place a model on ranks: a copy on each (ddp), a shard on each (fsdp), a copy on each node (hsdp), or split heads
(tp)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from stampworks_train.part import local
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from .model import Transformer
from .settings import Settings

TORCH = str(torch.__version__)
GATHERS_AGAIN = True
"""Whether weights are gathered a second time for the backward pass, which saves memory."""
if not hasattr(torch.cpu.Stream, "record_event"):
    # torch 2.6 calls this on a CPU's stream in fully_shard, where it does not exist; there is nothing to wait for.
    # Weights gathered again on a CPU count as changed, so that torch refuses the backward pass.
    GATHERS_AGAIN = False
    torch.cpu.Stream.record_event = lambda _: torch.cpu.Event()
    torch.cpu.Stream.wait_event = lambda *_: None


@dataclass(frozen=True)
class Laid:
    """A model on its ranks, and the part of each step's samples for this rank."""

    model: Transformer
    runs: nn.Module
    """The model, or the wrapper that runs it."""
    part: int
    parts: int
    """Number of parts of the samples: one for each rank, or for each group of tensor-parallel ranks."""
    narrow: bool
    """Whether it computes with bfloat16."""

    def accumulating(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Gradients are reduced with the last of several batches."""
        if isinstance(self.runs, DistributedDataParallel):
            return contextlib.nullcontext() if last else self.runs.no_sync()
        self.runs.set_requires_gradient_sync(last)
        return contextlib.nullcontext()


def laid_out(settings: Settings, device: torch.device, on_node: int, linear: type[nn.Linear] = nn.Linear) -> Laid:
    """Return a model with uninitialized weights.

    `on_node`: ranks of a node; `linear`: type of the blocks' layers. It is created without memory, which is allocated
    when it is sharded: no rank ever holds more than its part.
    """
    with torch.device("meta"):
        model = Transformer(settings.model, linear)
    world, rank, kind = dist.get_world_size(), dist.get_rank(), device.type
    narrow = settings.precision in ("bfloat16", "float8") or (
        settings.precision == "auto" and kind == "cuda" and torch.cuda.is_bf16_supported()
    )
    if settings.compile:
        for block in model.blocks:
            block.compile()
    if settings.layout == "ddp":
        model.to_empty(device=device)
        return Laid(model, DistributedDataParallel(model), rank, world, narrow)
    if settings.layout == "tp":
        mesh = init_device_mesh(kind, (world // settings.tensor_parallel, settings.tensor_parallel), mesh_dim_names=TP)
        for block in model.blocks:
            parallelize_module(block, mesh["cut"], CUTS)
        _sharded(model, mesh["copies"], device, narrow)
        return Laid(model, model, mesh.get_local_rank("copies"), mesh["copies"].size(), narrow)
    if settings.layout == "hsdp":
        if kind == "cpu" and not GATHERS_AGAIN:
            raise ValueError(f"layout hsdp on processors needs torch 2.7 or later, whose gloo averages: it is {TORCH}")
        mesh = init_device_mesh(kind, (world // on_node, on_node), mesh_dim_names=("nodes", "ranks"))
    else:
        mesh = init_device_mesh(kind, (world,))
    _sharded(model, mesh, device, narrow)
    return Laid(model, model, rank, world, narrow)


TP = ("copies", "cut")
CUTS = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "feed.gate": ColwiseParallel(),
    "feed.up": ColwiseParallel(),
    "feed.down": RowwiseParallel(),
}


def _sharded(model: Transformer, mesh: DeviceMesh, device: torch.device, narrow: bool) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if narrow else None
    more = {
        "reshard_after_forward": GATHERS_AGAIN or mesh.device_type != "cpu",
        **({"mp_policy": policy} if policy else {}),
    }
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **more)
    fully_shard(model, mesh=mesh, **more)
    model.to_empty(device=device)


def clipped(model: nn.Module, most: float) -> float:
    """The norm of all gradients, which are cut down to `most`; the same on all ranks.

    Summed here, for torch cannot add norms of weights that lie on different meshes. An accelerator is waited for once:
    to do it for each weight took 25 ms of a step of 505.
    """
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    parts = [local(gradient) for gradient in gradients]
    alike: dict[int, list[Tensor]] = {}
    for gradient, part in zip(gradients, parts, strict=True):
        if part.numel():
            alike.setdefault(_copies(gradient), []).append(part)
    total = torch.zeros((), dtype=torch.float64, device=parts[0].device)
    for copies, those in alike.items():
        norms = torch._foreach_norm(those, 2, torch.float64)  # sum without copies
        total += torch.stack(norms).square().sum() / copies
    dist.all_reduce(total)
    norm = float(total.sqrt())
    if norm > most:
        torch._foreach_mul_(parts, most / norm)
    return norm


def _copies(value: Tensor) -> int:
    """Return the number of ranks that hold this part."""
    world: int = dist.get_world_size()
    if not isinstance(value, DTensor):
        return world
    mesh = value.device_mesh
    parts: int = 1
    for dimension, placement in enumerate(value.placements):
        if not isinstance(placement, Replicate):
            parts *= mesh.size(dimension)
    return world // parts
