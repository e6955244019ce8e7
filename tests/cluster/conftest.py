"""Clusters for the tests of this folder: private to a file, or shared by several."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.cluster.shared import kubernetes, kubernetes_cluster, slurm, slurm_cluster
from tests.cluster.stack import Stack

__all__ = ["kubernetes", "kubernetes_cluster", "slurm", "slurm_cluster"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield a stack without resources, and remove what its tests leave."""
    stack = Stack.make(tmp_path_factory.mktemp("stack"), f"t{os.getpid()}")
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")


@pytest.fixture
def pulumi_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give Pulumi's test harness an event loop, and close the loops of its worker threads."""
    loops: list[asyncio.AbstractEventLoop] = []
    make = asyncio.new_event_loop

    def made() -> asyncio.AbstractEventLoop:
        loops.append(make())
        return loops[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", made)
    asyncio.set_event_loop(asyncio.new_event_loop())
    yield
    asyncio.set_event_loop(None)
    for loop in loops:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
