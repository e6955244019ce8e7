"""Users log in to a login node: their jobs run elsewhere, and the head stays closed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_drift import lines, refresh
from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    pools:
      - {{name: gpu, machine: sim-h100, count: 1}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    users:
      - {{name: alice, uid: 2001}}
      - {{name: bob, uid: 2002}}
    scheduler: {{login_nodes: 1, drain_timeout_minutes: 1, protect: false}}
    proof: {{level: none}}
"""
WAIT_S = 60
NODES = ["gpu-001", "gpu-002", "gpu-003", "gpu-004"]


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    return stack


def as_alice(stack: Stack, command: str) -> str:
    return stack.shell("login-001", f"cd /shared/alice; runuser -u alice -- {command}")


@pytest.fixture
def folder(slurm: Stack) -> Iterator[Stack]:
    """The shared cluster, with a folder of alice's on its shared storage."""
    slurm.shell("login-001", "install -d -o alice -g alice /shared/alice")
    yield slurm
    slurm.shell("login-001", "rm -r /shared/alice")


@pytest.fixture(scope="module")
def own(stamped: Stack) -> Stack:
    """A cluster of this file's own, with the same folder."""
    stamped.shell("login-001", "install -d -o alice -g alice /shared/alice")
    return stamped


def test_a_user_runs_a_program_from_there(folder: Stack) -> None:
    """A step talks back to the node that it was started from."""
    assert as_alice(folder, "srun --nodelist=gpu-001 sh -c 'hostname; id -un'").splitlines() == ["gpu-001", "alice"]
    assert as_alice(folder, "salloc --quiet --nodelist=gpu-001 srun hostname") == "gpu-001"


def test_a_user_submits_from_there(folder: Stack) -> None:
    """Output of the job is read on shared storage, at the place of the submission."""
    job = as_alice(folder, "sbatch --parsable --nodelist=gpu-001 --output=said --wrap='hostname; sleep 1; echo done'")
    wait_for(lambda: "done" in as_alice(folder, "cat said 2>/dev/null || true"), WAIT_S)
    assert as_alice(folder, "cat said").splitlines() == ["gpu-001", "done"]
    wait_for(lambda: job not in as_alice(folder, "squeue --noheader --format=%i").split(), WAIT_S)


def test_it_takes_no_job(folder: Stack) -> None:
    """Slurm has no node of that name, and nothing on it would run a step."""
    assert as_alice(folder, "sinfo --noheader --Node --format=%N").split() == NODES
    assert folder.shell("login-001", "pgrep -x slurmd || echo none") == "none"


def test_a_user_cannot_read_the_key(folder: Stack) -> None:
    """The holder of the key can be any user to Slurm."""
    assert "denied" in as_alice(folder, "cat /etc/slurm/slurm.key 2>&1 || true")


def to_node(stack: Stack, user: str, command: str) -> list[str]:
    """Return the output of a login as this user, from a login node, and how it ended."""
    ssh = f"runuser -u {user} -- ssh -o BatchMode=yes gpu-001 {shlex.quote(command)}"
    return stack.shell("login-001", f"{ssh} 2>&1; echo rc $?").splitlines()


def test_login_to_a_node_needs_a_job(folder: Stack) -> None:
    """A user with a job there is confined to its resources. Other users are refused, as is the user after the job's
    end."""
    denied = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
    assert denied in (said := to_node(folder, "alice", "hostname"))
    assert said[-1] == "rc 255"
    job = as_alice(folder, "sbatch --parsable --nodelist=gpu-001 --output=/dev/null --wrap='sleep 300'")
    wait_for(lambda: to_node(folder, "alice", "printenv SLURM_JOB_ID")[-2:] == [job, "rc 0"], WAIT_S)
    assert denied in (said := to_node(folder, "bob", "hostname"))
    assert said[-1] == "rc 255"
    as_alice(folder, f"scancel {job}")
    wait_for(lambda: to_node(folder, "alice", "hostname")[-1] == "rc 255", WAIT_S)
    assert folder.stampworks("ssh", "-s", "test", "gpu-001", "--", "hostname").stdout.strip() == "gpu-001"


def test_it_is_part_of_the_status(slurm: Stack) -> None:
    """A login node is up or missing, like the head, and has no jobs."""
    done = slurm.stampworks("status", "-s", "test", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = {each["name"]: each for each in json.loads(done.stdout)["nodes"]}
    assert (nodes["login-001"]["state"], nodes["login-001"]["pool"]) == ("up", "login")
    done = slurm.stampworks("ssh", "-s", "test", "login-001", "--", "hostname")
    assert done.stdout.strip() == "login-001", done.stderr


@pytest.mark.long
def test_it_learns_of_a_new_configuration(own: Stack) -> None:
    """The `up` makes another queue known there, and a second `up` changes nothing."""
    own.edit(
        "protect: false}\n    proof", "protect: false, queues: [{name: q, pools: [gpu], default: true}]}\n    proof"
    )
    own.up()
    assert as_alice(own, "sinfo --noheader --format=%P") == "q*"
    assert as_alice(own, "srun --partition=q hostname") == "gpu-001"
    assert "unchanged" in (said := own.up())
    assert "updated" not in said
    assert lines(refresh(own)) == []


@pytest.mark.long
def test_one_more_and_none(own: Stack) -> None:
    """Only the declared number changes."""
    gpu = own.nodes()["gpu-001"]["instance"]
    own.edit("login_nodes: 1", "login_nodes: 2")
    own.up()
    assert own.shell("login-002", "runuser -u alice -- srun hostname") == "gpu-001"
    own.edit("login_nodes: 2, ", "")
    own.up()
    assert sorted(own.nodes()) == ["gpu-001", "head"]
    assert own.nodes()["gpu-001"]["instance"] == gpu
