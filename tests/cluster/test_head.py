"""The head is a node like any other: what only the scheduler knows lies apart from it, and is guarded."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.conftest import Stack

pytestmark = pytest.mark.cluster

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
LOSE_DISK = """
from stampworks.clouds.local import room
[one] = room.rooms()
room.end_nodes(one.cluster, one.owner, ["head"], print)
"""
JOBS = ("squeue", "--noheader", "--sort", "i", "--format", "%i %T %R")


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    return stack


def on_head(stack: Stack, *argv: str) -> str:
    command = [sys.executable, "-m", "stampworks.cli.main", "ssh", "-s", "test", "head", "--", *argv]
    environment = stack.environment()
    done = subprocess.run(command, cwd=stack.folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def submit(stack: Stack, command: str) -> str:
    options = ("--parsable", "--exclusive", "--output=/dev/null", f"--wrap={command}")
    return on_head(stack, "runuser", "-u", "alice", "--", "sbatch", "--chdir=/tmp", *options)


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.5)


def finished(stack: Stack) -> list[str]:
    """The jobs that came to their end, as the accounting has them."""
    said = on_head(stack, "sacct", "--noheader", "--parsable2", "--allusers", "--allocations", "--format=jobid,state")
    return [line.removesuffix("|COMPLETED") for line in said.splitlines() if line.endswith("|COMPLETED")]


def test_a_head_with_a_new_disk_has_the_old_queue(stamped: Stack) -> None:
    """Jobs that run go on, jobs that wait go on waiting, and what was accounted for is still known."""
    past = submit(stamped, "true")
    wait_for(lambda: past in finished(stamped))
    runs, waits = submit(stamped, "sleep 600"), submit(stamped, "sleep 601")
    expected = f"{runs} RUNNING gpu-001\n{waits} PENDING (Resources)"
    wait_for(lambda: on_head(stamped, *JOBS) == expected)
    host_key = stamped.nodes()["head"]["host_key"]
    subprocess.run([sys.executable, "-c", LOSE_DISK], env=stamped.environment(), check=True)
    assert "head" not in stamped.nodes()
    stamped.up()
    assert stamped.nodes()["head"]["host_key"] != host_key, "it is another one"
    wait_for(lambda: on_head(stamped, *JOBS) == expected)
    assert "Restarts=0" in on_head(stamped, "scontrol", "show", "job", runs)
    assert past in finished(stamped)
    on_head(stamped, "scancel", runs, waits)


def test_destroy_stops_at_what_is_protected(stamped: Stack) -> None:
    """Its preview finds that one part may not be deleted, and nothing is."""
    refused = stamped.run("destroy", "--yes")
    assert refused.returncode != 0
    assert "cannot be deleted" in refused.stdout
    assert "protect" in refused.stdout
    assert stamped.nodes()["gpu-001"]["state"] == "up"


def test_what_is_protected_can_be_kept(stamped: Stack) -> None:
    """The rest of the cluster goes and comes back, with the keys, the queue and the accounting of before."""
    keys = stamped.resources()[f"Keyring {stamped.cluster}"]["outputs"]["sshPublicKey"]
    waits = submit(stamped, "true")
    wait_for(lambda: waits in finished(stamped))
    gone = stamped.run("destroy", "--yes", "--skip-preview", "--exclude-protected")
    assert gone.returncode == 0, gone.stdout
    assert stamped.nodes() == {}
    stamped.up()
    assert waits in finished(stamped)
    assert stamped.resources()[f"Keyring {stamped.cluster}"]["outputs"]["sshPublicKey"] == keys


def test_an_explicit_word_lets_it_go(stamped: Stack) -> None:
    """Once the declaration says so, `up` takes the guard away and `destroy` leaves nothing."""
    stamped.edit("protect: true", "protect: false")
    stamped.up()
    stamped.destroy()
    assert stamped.resources() == {}
    assert stamped.traces() == []
