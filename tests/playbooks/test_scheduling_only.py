"""A real scheduler with 1,024 nodes, of which one exists."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from tests.playbooks.conftest import Cluster, plan_of, stamped

pytestmark = [pytest.mark.cluster, pytest.mark.long]

LEAF_NODES = 32


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pools = [
        {"name": "gpu", "machine": "sim-h100", "count": 1},
        {"name": "big", "machine": "sim-h100", "count": 1023, "scheduling_only": True},
    ]
    scheduler = {"topology": "tree", "drain_timeout_minutes": 1}
    name = f"t{uuid.uuid4().hex[:8]}"
    plan = plan_of(name, pools=pools, scheduler=scheduler, fabric={"leaf_nodes": LEAF_NODES})
    with stamped(plan, tmp_path_factory.mktemp("large")) as made:
        yield made


def placed(cluster: Cluster, *options: str) -> list[str]:
    """Return the nodes on which a job would start."""
    asked = f"sbatch --test-only --partition scheduling-only {' '.join(options)} --wrap hostname 2>&1"
    found = re.search(r"Job \d+ to start at \S+ using \d+ processors on nodes (\S+)", cluster.shell("head", asked))
    assert found, asked
    return cluster.shell("head", f"scontrol show hostnames {found[1]}").split()


def leaf(node: str) -> int:
    return (int(node.removeprefix("big-")) - 1) // LEAF_NODES


def test_jobs_are_placed_by_leaf(large: Cluster) -> None:
    """A job gets as many whole leaves as it needs; the scheduler counts accelerators, and refuses too many."""
    nodes = placed(large, "--nodes 256", "--gres gpu:8", "--exclusive")
    assert len(nodes) == 256
    assert len({leaf(node) for node in nodes}) == 256 // LEAF_NODES
    assert len({leaf(node) for node in placed(large, "--nodes 32", "--switches 1")}) == 1
    refused = large.shell(
        "head", "sbatch --test-only -p scheduling-only -N 1 --gres gpu:9 --wrap hostname 2>&1 || true"
    )
    assert "Requested node configuration is not available" in refused


def test_a_job_that_is_meant_to_run_there_is_told_so(large: Cluster) -> None:
    """The job is cancelled at once with the reason, and the nodes are unchanged."""
    said = large.shell("head", "timeout 60 srun -p scheduling-only -N 2 hostname 2>&1; true")
    assert "are for scheduling only: no job can run there" in said
    job = large.shell("head", "sbatch --parsable -p scheduling-only -N 2 --wrap hostname")
    large.until("head", f"squeue --noheader --jobs {job} --format %T", "")
    large.until("head", "sinfo --noheader --partition scheduling-only --format '%T %D'", "idle~ 1023", 60)


def test_the_real_node_runs_jobs_and_stays_on(large: Cluster) -> None:
    """The default queue has this node alone."""
    assert large.shell("head", "srun --nodes 1 hostname") == "gpu-001"
    large.until("head", "sinfo --noheader --partition main --format '%T %D'", "idle 1")
