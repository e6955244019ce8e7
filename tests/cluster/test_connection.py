"""A user without an administrator's rights, with a connection and a key of her own, on a real cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.shared import key_of
from tests.cluster.stack import Stack
from tests.project import wait_for

pytestmark = [
    pytest.mark.engine,
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user of this machine"),
]
NOBODY, LIMIT_S = 65534, 120
MEET = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
found = torch.tensor([float(dist.get_rank())])
dist.all_reduce(found)
rank, size = dist.get_rank(), dist.get_world_size()
print(f"{rank} of {size}: sum {found.item()}, token {len(os.environ['TOKEN'])}", flush=True)
dist.destroy_process_group()
"""
JOB = """\
nodes: 2
workdir: source
secrets: [{name: TOKEN, file: token}]
run: |
  torchrun meet.py
  sleep 1
  exit 6
"""
# Python may be below a home that only root can enter: a mount namespace lets her read it, and nothing else there
AS_NOBODY = """
mount --bind "$1" "$2/base"; mount -t tmpfs -o mode=755 none /root
mkdir -p "$1"; mount --bind "$2/base" "$1"; cd "$2/hers"; shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "$@"
"""


@dataclass(frozen=True)
class Alice:
    """An ordinary user of this machine."""

    folder: Path

    def stampworks(self, *argv: str) -> subprocess.CompletedProcess[str]:
        hers = self.folder / "hers"
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(hers),
            "XDG_CONFIG_HOME": str(hers / "config"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = ["unshare", "--mount", "sh", "-euc", AS_NOBODY, "sh", sys.base_prefix, str(self.folder)]
        told = [f"{name}={value}" for name, value in environment.items()]
        return subprocess.run(
            [*command, "env", "-i", *told, sys.executable, "-m", "stampworks.cli.main", *argv],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def passes(self, *argv: str) -> str:
        done = self.stampworks(*argv)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def alice(slurm: Stack) -> Iterator[Alice]:
    """Her key is declared, and the administrator's file is in its expected place."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are below a folder that only root can enter
        yield _alice(slurm, Path(folder))


def _alice(slurm: Stack, folder: Path) -> Alice:
    (folder / "base").mkdir()
    hers = folder / "hers"
    (hers / "config" / "stampworks").mkdir(parents=True)
    connection, key = hers / "config" / "stampworks" / "connection.json", hers / "key"
    shutil.copy(key_of(slurm, "alice"), key)
    done = slurm.stampworks("login", "-s", "test", "--as", "alice", "--to", str(connection))
    assert (done.returncode, done.stderr) == (0, "")
    assert connection.stat().st_mode & 0o777 == 0o600
    connection.write_text(connection.read_text().replace('"identity_file": ""', f'"identity_file": "{key}"'))
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, NOBODY, NOBODY)
    return Alice(folder)


def test_a_user_works_by_herself(slurm: Stack, alice: Alice) -> None:
    """She owns her jobs in Slurm. She cannot drain nodes, nor end jobs of others."""
    assert alice.passes("status").startswith(f"cluster {slurm.cluster} on local: pass\n")
    assert sorted(alice.passes("run", "--gpus", "0", "id", "-un").split()) == ["alice"] * 4
    assert len(alice.passes("run", "--nodes", "1", "--gpus", "3", "nvidia-smi", "-L").splitlines()) == 3
    assert alice.passes("ssh", "login-001", "--", "id -un; hostname") == "alice\nlogin-001\n"
    job = slurm.shell("head", "sbatch --parsable --output=/dev/null --gres=gpu:8 --wrap='sleep 300'")
    assert alice.stampworks("ssh", "head", "--", f"scancel {job}").returncode != 0
    refused = alice.stampworks("drain", "gpu-001", "--reason", "mine")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"drain is for administrators of cluster {slurm.cluster}")
    slurm.shell("head", f"scancel {job}")


def test_a_job_of_her_own(slurm: Stack, alice: Alice) -> None:
    """Her file goes with her key alone: torchrun finds its peers, its exit code is returned, and her secret is
    removed."""
    hers = alice.folder / "hers"
    (hers / "source").mkdir()
    (hers / "source" / "meet.py").write_text(MEET)
    (hers / "token").write_text("s3cr3t\n")
    (hers / "meet.yaml").write_text(JOB)
    for path in (*hers.glob("*.yaml"), hers / "token", hers / "source", hers / "source" / "meet.py"):
        shutil.chown(path, NOBODY, NOBODY)
    done = alice.stampworks("submit", "meet.yaml", "--wait")
    assert done.returncode == 6, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {"0: 0 of 2: sum 1.0, token 6", "1: 1 of 2: sum 1.0, token 6"} <= set(lines), lines
    listed = json.loads(alice.passes("jobs", "--mine", "--json"))["jobs"]
    assert [job["state"] for job in listed if job["name"] == "meet"] == ["failed"]
    assert "0 of 2: sum 1.0, token 6" in alice.passes("logs", "meet")
    wait_for(lambda: slurm.shell("head", "ls /shared/runs/meet.alice | grep -c secrets || true") == "0", LIMIT_S)
    assert alice.stampworks("submit", "meet.yaml", "--user", "bob").returncode == 2


def test_a_user_submits_by_herself(slurm: Stack, alice: Alice) -> None:
    """The test covers the way from the file to the log, and an ssh session on the job's node."""
    said = alice.passes("submit", "--name", "hers", "--nodes", "1", "--gpus", "1", "--wait", "--", "id", "-un")
    assert "alice" in said.splitlines()
    assert "alice" in alice.passes("logs", "hers").splitlines()
    alice.passes("submit", "--name", "long", "--nodes", "1", "--gpus", "1", "--", "sleep", "300")
    listed = {job["name"]: job for job in json.loads(alice.passes("jobs", "--json"))["jobs"]}
    assert (listed["hers"]["state"], listed["long"]["user"]) == ("finished", "alice")
    wait_for(lambda: alice.stampworks("ssh", "--job", "long", "--", "true").returncode == 0, LIMIT_S)
    assert alice.passes("ssh", "--job", "long", "--", "id -un; hostname").startswith("alice\ngpu-")
    alice.passes("cancel", "long")


def test_a_key_that_is_not_hers(slurm: Stack, alice: Alice) -> None:
    """The file alone opens nothing."""
    (alice.folder / "hers" / "key").write_text(key_of(slurm, "bob").read_text())
    done = alice.stampworks("run", "id")
    assert done.returncode == 3
    assert "head cannot be reached: alice@127.0.0.1: Permission denied (publickey" in done.stderr


def test_verbs_use_the_stamped_declaration(slurm: Stack) -> None:
    """A file that is being edited does not affect verbs on the running cluster."""
    before = slurm.file.read_text()
    try:
        slurm.edit("count: 4", "cout: 9")
        done = slurm.stampworks("status", "-s", "test")
    finally:
        slurm.file.write_text(before)
    assert done.returncode == 0, done.stderr
    assert "note: the cluster is taken as it was stamped: stacks/Pulumi.test.yaml:8:40: pools[0].cout" in done.stderr


def test_a_run_leaves_out_what_cannot_take_it(slurm: Stack) -> None:
    """Drained and busy nodes are left out; the run does not wait for them."""
    job = slurm.shell("head", "sbatch --parsable --output=/dev/null --gres=gpu:8 --nodelist=gpu-002 --wrap='sleep 300'")
    slurm.shell("head", "scontrol update nodename=gpu-001 state=drain reason='person bob: new fans'")
    try:
        slurm.shell("head", f"until squeue --noheader --states=running --jobs={job} | grep -q .; do sleep 0.1; done")
        done = slurm.stampworks("run", "-s", "test", "hostname")
        assert sorted(done.stdout.split()) == ["gpu-003", "gpu-004"], done.stderr
        assert "left out: gpu-001: drain: new fans (held by bob)\n" in done.stderr
        assert f"left out: gpu-002: busy with job {job}\n" in done.stderr
    finally:
        slurm.shell("head", f"scancel {job}")
        assert slurm.stampworks("return", "-s", "test", "gpu-001").returncode == 0
