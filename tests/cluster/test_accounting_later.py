"""Accounting that is declared when a cluster runs already, on queues of two priorities."""

from __future__ import annotations

import pytest

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
    users:
      - {{name: alice, uid: 2001}}
    scheduler:
      protect: false
      accounting: false
      drain_timeout_minutes: 1
      queues:
        - {{name: main, pools: [gpu], default: true, priority: normal}}
        - {{name: urgent, pools: [gpu], priority: high}}
      priorities:
        - {{name: normal, weight: 100}}
        - {{name: high, weight: 200, preempts: [normal]}}
    proof: {{level: quick}}
    roll: {{max_unavailable_percent: 50}}
"""


def test_accounting_comes_in_place(stack: Stack) -> None:
    """The `up` passes its proof, no node stays held, and the user's jobs run in both queues and are counted."""
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    stack.edit("accounting: false", "accounting: true")
    stack.up()
    assert stack.shell("head", "sinfo --noheader --Node --states=drain,down --format=%n").split() == []
    for queue in ("main", "urgent"):
        stack.shell("head", f"runuser -u alice -- srun --partition={queue} true")
    counted = stack.shell("head", "sacct --allusers --noheader --parsable2 --user=alice --format=Partition,State -X")
    assert sorted(counted.split()) == ["main|COMPLETED", "urgent|COMPLETED"]
    stack.unchanged("--refresh")
