"""Ranks of bench/checkpoint.py in the environment with torch: a line of input says how to save, and the answer has the
duration. python -m bench.saving FOLDER RANKS MIB beside | alone | plain"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from stampworks_train.checkpoint import Checkpoints
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from validation.timing import without_waiting

TENSORS = 32
KEPT = 1
STEP_S = 0.5
"""Seconds of compute before a step changes the state, alone on its processor."""


def main(folder: Path, ranks: int, size: int) -> None:
    store = Path(tempfile.mkdtemp()) / "store"
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=live, args=(store, folder, rank, ranks, size)) for rank in range(1, ranks)]
    for each in others:
        each.start()
    live(store, folder, 0, ranks, size)
    for each in others:
        each.join()


def live(store: Path, folder: Path, rank: int, world: int, size: int) -> None:
    """Run a rank until the input ends, which only the first rank reads."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", store=dist.FileStore(str(store), world), rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    rows = size * 2**20 // TENSORS // 4 // 1024
    local = [torch.randn(rows // world, 1024) for _ in range(TENSORS)]
    state = {"model": {str(number): DTensor.from_local(each, mesh, [Shard(0)]) for number, each in enumerate(local)}}
    saver = Saver(Checkpoints(folder / "ours", KEPT, rank, world, "bench"), folder / "torch", state, rank)
    while word := told(sys.stdin.readline().strip() if not rank else ""):
        dist.barrier()
        begun = time.perf_counter()
        found = getattr(saver, f"save_{word}")()
        answer = {**found, "seconds": time.perf_counter() - begun}
        answers: list[Any] = [None] * world
        dist.all_gather_object(answers, answer)
        if not rank:
            said = {key: max(each[key] for each in answers) for key in answer}
            print(json.dumps({**said, "cpu": sum(each["cpu"] for each in answers)}), flush=True)


class Saver:
    """The same tensors, saved in different ways; each way returns how long training waits."""

    def __init__(self, checkpoints: Checkpoints, plain: Path, state: dict[str, Any], rank: int) -> None:
        self.checkpoints, self.plain, self.state, self.rank = checkpoints, plain, state, rank
        self.step = 0
        self.group = dist.new_group(backend="gloo")
        self.factor = torch.randn(512, 512) / 512**0.5
        self.products = 1
        while (alone := took(self.compute)["blocked"]) < STEP_S:
            self.products = max(2 * self.products, int(self.products * STEP_S / alone))

    def compute(self) -> None:
        """Compute, as a step does before it changes the state."""
        for _ in range(self.products):
            torch.mm(self.factor, self.factor)

    def save_beside(self) -> dict[str, float]:
        """Save beside a step, and return its duration and that of a step without a save."""
        alone = took(self.compute)["blocked"]
        dist.barrier(self.group)
        self.step += 1
        before = cpu()
        begun = took(lambda: self.checkpoints.save(self.state, self.step, {}))
        beside = took(self.compute)
        ended = took(self.checkpoints.copied)
        self.published()
        stalled = {key: begun[key] + ended[key] for key in ("blocked", "ran")}
        return {**stalled, "longer": beside["blocked"] - alone, "cpu": cpu() - before - beside["cpu"]}

    def save_alone(self) -> dict[str, float]:
        """Save and wait for the copy, as a step that changes the state at once must."""
        self.step += 1
        stalled = took(lambda: (self.checkpoints.save(self.state, self.step, {}), self.checkpoints.copied()))
        self.published()
        return stalled

    def published(self) -> None:
        self.checkpoints.finish()
        if problem := self.checkpoints.problem():
            raise SystemExit(problem)

    def save_plain(self) -> dict[str, float]:
        """Save as plain torch does, which waits for the disk and computes no digests."""
        if not self.rank:
            shutil.rmtree(self.plain, ignore_errors=True)
        dist.barrier(self.group)
        writer = dcp.FileSystemWriter(self.plain)
        before = cpu()
        blocked = took(lambda: dcp.save(self.state, storage_writer=writer, process_group=self.group))
        return {**blocked, "cpu": cpu() - before}


def took(work: Callable[[], object]) -> dict[str, float]:
    """Return the elapsed seconds, those without waiting for a CPU, and those on a CPU."""
    begun, ran, used = time.perf_counter(), without_waiting(), time.thread_time()
    work()
    return {
        "blocked": time.perf_counter() - begun,
        "ran": without_waiting() - ran,
        "cpu": time.thread_time() - used,
    }


def told(word: str) -> str:
    """Return the text of rank 0 on every rank."""
    words = [word]
    dist.broadcast_object_list(words, 0)
    return words[0]


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
