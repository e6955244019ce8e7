"""A project with a stack, and a stand-in for its cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stampworks.plan import Roster

from tests.operations.slurm.standin import StandIn, member

STACK = """\
config:
  stampworks:cluster:
    version: 1
    name: local
    cloud: local
    pools:
      - {name: gpu, machine: sim-h100, count: 2}
      - {name: cpu, machine: sim-cpu, count: 1}
    users:
      - {name: alice, uid: 2001}
    scheduler:
      queues:
        - {name: main, pools: [gpu, cpu], default: true}
        - {name: gpus, pools: [gpu]}
"""

RUNUSER = """#!/bin/sh
[ "$1" = -l ] && [ "$3" = -c ] && [ $# = 4 ] || exit 99
echo "as $2" > "$HERE/user"
exec sh -c "$4"
"""

SRUN = """#!/bin/sh
while [ "$1" != -- ]; do echo "$1" >> "$HERE/srun"; shift; done
shift
exec "$@"
"""

SCANCEL = """#!/bin/sh
echo "$*" >> "$HERE/scancel"
"""

PULUMI = """#!/bin/sh
echo "$PWD $*" >> "$HERE/asked"
[ "$1 $2 $3 $4" = "stack export --non-interactive --stack" ] || exit 99
if [ ! -e "$HERE/$5.json" ]; then echo "error: no stack named '$5' found" >&2; exit 6; fi
cat "$HERE/$5.json"
"""


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pulumi's backend, a file for each stack."""
    folder = tmp_path / "backend"
    folder.mkdir()
    (folder / "pulumi").write_text(PULUMI)
    (folder / "pulumi").chmod(0o755)
    monkeypatch.setenv("HERE", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def project(backend: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with the stack `local`, not stamped yet; the working directory is below it."""
    folder = tmp_path / "project"
    (folder / "stacks" / "deeper").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: test\nruntime: python\nmain: stacks\nstackConfigDir: stacks\n")
    (folder / "stacks" / "Pulumi.local.yaml").write_text(STACK)
    monkeypatch.chdir(folder / "stacks" / "deeper")
    monkeypatch.setenv("STAMPWORKS_USER", "root")
    return folder


@pytest.fixture
def cluster(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stack's cluster, running."""
    folder = tmp_path / "a cluster"
    folder.mkdir()
    found = StandIn(folder)
    found.program("runuser", RUNUSER)
    found.program("srun", SRUN)
    found.program("scancel", SCANCEL)
    members = (*found.roster.members, member("cpu-001", "cpu", "10.77.2.1"))
    found.roster = Roster("local", "local", found.roster.reach, "root", found.roster.identity_file, members)
    monkeypatch.setattr("stampworks.operations.members", lambda *_: found.roster)
    return found
