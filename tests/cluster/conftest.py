"""Clusters for the tests of this folder: one of a file's own, and those that files share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.shared import kubernetes, kubernetes_cluster, slurm, slurm_cluster
from tests.cluster.stack import Stack

__all__ = ["kubernetes", "kubernetes_cluster", "slurm", "slurm_cluster"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that nothing was created of yet; whatever its tests leave is ended."""
    stack = Stack.make(tmp_path_factory.mktemp("stack"), f"t{os.getpid()}")
    yield stack
    stack.run("destroy", "--yes", "--skip-preview")
