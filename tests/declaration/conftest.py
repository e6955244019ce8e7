"""A declaration with all fields, helpers to change it, and its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from stampworks.declaration import DeclarationError, load_file

EXAMPLE = """\
version: 1
name: local
cloud: local
release: "2026.11"
network: {cidr: 10.77.0.0/16}
pools:
  - {name: gpu, machine: sim-h100, count: 4}
  - {name: cpu, machine: sim-cpu, count: 1}
fabric: {kind: simulated, rail_rate_mbps: 200, leaf_nodes: 2, oversubscription: 1}
storage:
  - {name: shared, kind: directory, mount: /shared, protect: true}
  - {name: data, kind: directory, mount: /data}
users:
  - {name: alice, uid: 2001, accounts: [research]}
  - {name: bob, uid: 2002}
scheduler:
  kind: slurm
  accounting: true
  topology: tree
  preemption: requeue
  drain_timeout_minutes: 10
  queues:
    - {name: main, pools: [gpu, cpu], default: true, time_limit_minutes: 0, priority: normal}
    - {name: short, pools: [cpu]}
  priorities:
    - {name: normal, weight: 100}
    - {name: urgent, weight: 900, preempts: [normal]}
  accounts: [{name: research, share: 1, accelerators_max: 0}]
"""

Complaint = Callable[[str], str]


def changed(old: str, new: str) -> str:
    """Return the example with a single place changed; the place must occur exactly once."""
    assert EXAMPLE.count(old) == 1, f"{old!r} stands in the example {EXAMPLE.count(old)} times"
    return EXAMPLE.replace(old, new)


def outline(text: str) -> list[str]:
    """The first line of each problem, without the file."""
    return [line.removeprefix("cluster.yaml:") for line in text.splitlines() if line.startswith("cluster.yaml:")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test, and empty."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def complaint(folder: Path) -> Complaint:
    """Return the problems of a declaration in cluster.yaml."""

    def say(text: str) -> str:
        (folder / "cluster.yaml").write_text(text)
        with pytest.raises(DeclarationError) as caught:
            load_file(Path("cluster.yaml")).refuse_problems()
        return str(caught.value)

    return say
