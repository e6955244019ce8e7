"""A node that breaks just before a job starts runs none of it: the job runs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = [pytest.mark.engine, pytest.mark.cluster, pytest.mark.long]

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    pools:
      - {{name: gpu, machine: sim-h100, count: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    scheduler: {{protect: false}}
    proof: {{level: quick}}
"""
WAIT_S = 60


def test_a_job_never_starts_on_a_node_that_just_broke(stack: Stack) -> None:
    """The node is drained for its proof; the job is requeued, and runs on the other node."""
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    stack.shell("gpu-001", "prlimit --pid $(pgrep -x slurmd | head -1) --memlock=65536:")
    wrapped = "--wrap='hostname >>/shared/ran'"
    job = stack.shell("head", f"cd /tmp; sbatch --parsable --exclusive --output=/dev/null {wrapped}")
    broken = "drained proof: lockable memory: 65536, where this node can give "
    wait_for(lambda: stack.node_states()["gpu-001"].startswith(broken), WAIT_S)
    stack.shell("head", f"scontrol update jobid={job} starttime=now")  # Slurm delays it for two minutes
    wait_for(lambda: stack.shell("head", "cat /shared/ran 2>/dev/null || true"), WAIT_S)
    assert stack.shell("head", "cat /shared/ran") == "gpu-002"
    assert stack.node_states()["gpu-001"].startswith(broken)  # the health check does not return what a proof holds


def test_a_proof_that_passes_returns_it(stack: Stack) -> None:
    """The node returns after its repair; until then it has a reason, with the value of the others."""
    failed = stack.stampworks("qualify", "-s", "test", "--level", "quick")
    assert failed.returncode == 1
    assert "lockable memory: 65536, where its peers have" in failed.stdout
    stack.shell("gpu-001", "sv restart /etc/stampworks/services/slurmd")
    passed = stack.stampworks("qualify", "-s", "test", "--level", "quick")
    assert passed.returncode == 0, passed.stdout
    assert stack.node_states()["gpu-001"].startswith("idle")
