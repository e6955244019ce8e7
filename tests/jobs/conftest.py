"""A plan with two pools, a queue for each, accounts and users."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import load_file
from stampworks.plan import Plan
from stampworks.planning import plan as plan_of

STACK = """\
version: 1
name: local
cloud: local
pools:
  - {name: gpu, machine: sim-h100, count: 4}
  - {name: cpu, machine: sim-cpu, count: 2}
storage:
  - {name: shared, kind: directory, mount: /shared}
users:
  - {name: alice, uid: 2001, accounts: [research]}
  - {name: carol, uid: 2003}
scheduler:
  accounting: true
  accounts: [{name: research}, {name: product}]
  queues:
    - {name: main, pools: [gpu], default: true, time_limit_minutes: 60}
    - {name: small, pools: [cpu]}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "cluster.yaml"
    file.write_text(STACK)
    return plan_of(load_file(file))
