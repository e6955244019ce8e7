"""Ranks for tests: processes that meet over gloo, and a model for them."""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # an optimizer imports it when it is made, which takes each rank seconds
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

LIMIT_S = 180.0
FORKED = multiprocessing.get_context("fork")  # torch is imported already: a rank costs milliseconds


def together(world: int, work: Callable[[int], Any]) -> list[Any]:
    """Run so many ranks and return their results; raise the error of any."""
    started = begun(world, work)
    try:
        return [ended(*each) for each in started]
    finally:
        for process, _ in started:
            process.kill()


def begun(world: int, work: Callable[[int], Any]) -> list[tuple[Any, Connection]]:
    """Start this many ranks, which the caller ends."""
    store = Path(tempfile.mkdtemp()) / "store"
    return [start(functools.partial(_meeting, store, rank, world, work)) for rank in range(world)]


def alone(work: Callable[[], Any]) -> Any:
    """Return the result of a separate process without a process group."""
    return ended(*start(work))


def start(work: Callable[[], Any]) -> tuple[Any, Connection]:
    here, there = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=_told, args=(there, work))
    process.start()
    there.close()
    return process, here


def ended(process: Any, pipe: Connection) -> Any:
    try:
        said = pipe.recv() if pipe.poll(LIMIT_S) else ("does not answer", None)
    except EOFError:
        said = (f"ended with {process.exitcode}", None)
    finally:
        process.kill()
        process.join()
    problem, result = said
    assert not problem, problem
    return result


def _told(pipe: Connection, work: Callable[[], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        pipe.send(("", work()))
    except BaseException:
        pipe.send((traceback.format_exc(), None))
    os._exit(0)


def _meeting(store: Path, rank: int, world: int, work: Callable[[int], Any]) -> Any:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", store=dist.FileStore(str(store), world), rank=rank, world_size=world)
    found = work(rank)
    dist.barrier()
    return found


class Trained:
    """A small model in shards, with an optimizer that remembers something of each weight."""

    def __init__(self, world: int, width: int = 21, seed: int = 0) -> None:
        torch.manual_seed(seed)  # the same whole model on every rank
        self.model = nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width, bias=False))
        if dist.is_initialized():
            mesh = init_device_mesh("cpu", (world,))
            for layer in (self.model[0], self.model[2]):
                fully_shard(layer, mesh=mesh)
            fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def step(self, number: int) -> None:
        """Gradients of no loss, for torch 2.6 can shard a model on processors and not run it there."""
        for weight in self.model.parameters():
            weight.grad = weight.detach() * 0.3 + number
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def take(self, state: dict[str, Any]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def digest(self) -> str:
        """Return the digest of the whole state, for any sharding."""
        found = hashlib.sha256()
        for name, value in sorted(_leaves(self.state(), "")):
            whole = value.full_tensor() if isinstance(value, DTensor) else value
            said = whole.detach().numpy().tobytes() if isinstance(whole, torch.Tensor) else repr(whole).encode()
            found.update(name.encode() + said)
        return found.hexdigest()


def _leaves(value: Any, place: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _leaves(each, f"{place}/{key}")]
    if isinstance(value, list):
        return [leaf for number, each in enumerate(value) for leaf in _leaves(each, f"{place}/{number}")]
    return [(place, value)]
