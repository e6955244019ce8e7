"""The head is a node like any other: the scheduler's state is stored outside of it, and protected."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from stampworks import machine_room as room

from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = [pytest.mark.cluster, pytest.mark.long]

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    pools:
      - {{name: gpu, machine: sim-h100, count: 1}}
    users:
      - {{name: alice, uid: 2001, accounts: [research]}}
    scheduler:
      accounting: true
      protect: true
      accounts: [{{name: research}}]
    proof: {{level: none}}
"""
JOBS = "squeue --noheader --sort i --format '%i %T %R'"
WAIT_S = 60


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    return stack


def submit(stack: Stack, command: str) -> str:
    options = f"--parsable --exclusive --output=/dev/null --wrap={shlex.quote(command)}"
    return stack.shell("head", f"runuser -u alice -- sbatch {options}")


def finished(stack: Stack) -> list[str]:
    """Return the ended jobs in the accounting."""
    said = stack.shell("head", "sacct --noheader --parsable2 --allusers --allocations --format=jobid,state")
    return [line.removesuffix("|COMPLETED") for line in said.splitlines() if line.endswith("|COMPLETED")]


def test_a_head_with_a_new_disk_has_the_old_queue(stamped: Stack) -> None:
    """Running and waiting jobs continue, and the accounting is kept."""
    past = submit(stamped, "true")
    wait_for(lambda: past in finished(stamped), WAIT_S)
    runs, waits = submit(stamped, "sleep 600"), submit(stamped, "sleep 601")
    expected = f"{runs} RUNNING gpu-001\n{waits} PENDING (Resources)"
    wait_for(lambda: stamped.shell("head", JOBS) == expected, WAIT_S)
    host_key = stamped.nodes()["head"]["host_key"]
    with stamped.entered():
        [one] = room.rooms()
        room.end_nodes(one.cluster, one.owner, ["head"], print)
    assert "head" not in stamped.nodes()
    stamped.up()
    assert stamped.nodes()["head"]["host_key"] != host_key, "it is another one"
    wait_for(lambda: stamped.shell("head", JOBS) == expected, WAIT_S)
    assert "Restarts=0" in stamped.shell("head", f"scontrol show job {runs}")
    assert past in finished(stamped)
    stamped.shell("head", f"scancel {runs} {waits}")


def test_destroy_stops_at_what_is_protected(stamped: Stack) -> None:
    """The preview finds a protected part, and nothing is deleted."""
    refused = stamped.run("destroy", "--yes")
    assert refused.returncode != 0
    assert "cannot be deleted" in refused.stdout
    assert "protect" in refused.stdout
    assert stamped.nodes()["gpu-001"]["state"] == "up"


def test_protected_resources_survive_destroy(stamped: Stack) -> None:
    """The rest of the cluster is destroyed and created again, with the earlier keys, queue and accounting."""
    keys = stamped.resources()[f"Keyring {stamped.cluster}"]["outputs"]["sshPublicKey"]
    waits = submit(stamped, "true")
    wait_for(lambda: waits in finished(stamped), WAIT_S)
    gone = stamped.run("destroy", "--yes", "--skip-preview", "--exclude-protected")
    assert gone.returncode == 0, gone.stdout
    assert stamped.nodes() == {}
    stamped.up()
    assert waits in finished(stamped)
    assert stamped.resources()[f"Keyring {stamped.cluster}"]["outputs"]["sshPublicKey"] == keys


def test_an_explicit_word_lets_it_go(stamped: Stack) -> None:
    """Once the declaration allows it, `up` removes the protection and `destroy` leaves nothing."""
    stamped.edit("protect: true", "protect: false")
    stamped.up()
    stamped.destroy()
    assert stamped.resources() == {}
    assert stamped.traces() == []
