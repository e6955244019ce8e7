"""A full shared directory on a separate disk: no job is lost, and the problem is reported."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator

import pytest
from stampworks import machine_room as room
from stampworks import operations
from stampworks.machine_room.room import of_cluster

from tests.playbooks.conftest import Cluster, plan_of, stamped

pytestmark = [pytest.mark.cluster, pytest.mark.long]

REASON = "sinfo -h -n gpu-001 -p main -o '%T %E'"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head and a node, on which the shared directory is a small disk."""
    with stamped(plan_of(f"t{uuid.uuid4().hex[:8]}", 1), tmp_path_factory.mktemp("full")) as made:
        name = made.plan.name
        place = str(room.read_folder(name, "exports", "shared"))
        mount = ["mount", "-t", "tmpfs", "-o", "mode=1777,size=16m,nr_inodes=500", "none", place]
        subprocess.run([*of_cluster(name).inside, *mount], check=True, timeout=30)
        made.power_cycle("gpu-001")
        made.until("head", REASON, "idle none")
        yield made


@pytest.mark.parametrize(
    ("fill", "what"),
    [
        ("! head -c 32M /dev/zero >/shared/ballast", "less than 0.32 of 16 MiB free"),
        ("! touch $(seq -f /shared/ballast-%.0f 600)", "less than 10 of 500 inodes free"),
    ],
    ids=["bytes", "inodes"],
)
def test_a_full_shared_directory_stops_the_queue_and_spoils_no_job(cluster: Cluster, fill: str, what: str) -> None:
    """Every job would fail at its first output. Jobs wait instead, and run when there is room again."""
    cluster.shell("gpu-001", f"{fill} 2>/dev/null; ! stampworks-health")
    cluster.until("head", REASON, f"drained health: /shared has {what}")
    job = cluster.shell("head", "sbatch --parsable --output=/shared/said --wrap 'echo here'")
    assert cluster.shell("head", f"squeue -h -j {job} -o %T") == "PENDING"

    assert cluster.play().changed == 0, "an up has nothing to do with it"
    status = operations.status_of(cluster.plan, cluster.roster)
    assert status.verdict == "fail"
    [why] = status.why
    assert re.fullmatch(rf"gpu-001: idle\+drain, held by the health check since \S+: /shared has {what}", why)

    cluster.shell("gpu-001", "rm /shared/*; stampworks-health")
    cluster.until("head", f"squeue -h -j {job} -o %T", "")
    assert cluster.shell("gpu-001", "cat /shared/said") == "here"
    cluster.until("head", REASON, "idle none")
