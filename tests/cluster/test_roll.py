"""Rolls: nodes get boot-time settings while jobs continue, in waves; each wave is proven before the next one begins."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.cluster.stack import Stack
from tests.project import wait_for

pytestmark = [pytest.mark.engine, pytest.mark.cluster, pytest.mark.long]

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    pools:
      - {{name: gpu, machine: sim-h100, count: 3}}
    users:
      - {{name: alice, uid: 2001}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    scheduler: {{protect: false, drain_timeout_minutes: 1}}
    extras: {{roles: [{{path: roles/shm, groups: [gpu], variables: {{shm_broken: none}}}}]}}
    proof: {{level: quick}}
    roll: {{max_unavailable_percent: 34, jobs: requeue}}
"""
ROLE = """\
- name: Give a node too little shared memory
  ansible.builtin.command: mount -o remount,size=16m /dev/shm
  when: inventory_hostname == shm_broken
  changed_when: true
"""
UP = ("up", "--yes", "--skip-preview")


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    tasks = stack.folder / "stacks" / "roles" / "shm" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text(ROLE)
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    return stack


def submit(stack: Stack, command: str, *options: str) -> str:
    words = ["sbatch", "--parsable", "--exclusive", "--output=/dev/null", *options, f"--wrap={command}"]
    return stack.shell("head", f"runuser -u alice -- {shlex.join(words)}")


def state(stack: Stack, job: str) -> str:
    return stack.shell("head", f"squeue --noheader --states all --jobs {job} --format %T")


def restarts(stack: Stack, job: str) -> str:
    return next(word for word in stack.shell("head", f"scontrol show job {job}").split() if word.startswith("Restarts"))


def disks(stack: Stack) -> dict[str, str]:
    """Return the disk of each node, by its host key."""
    return {name: node["host_key"] for name, node in stack.nodes().items()}


def certificate(stack: Stack) -> dict[str, Any]:
    return dict(json.loads(stack.resources()[f"Qualification {stack.cluster}"]["outputs"]["certificate"]))


def test_a_named_node_is_made_anew_and_no_other(stamped: Stack) -> None:
    """A plain preview names the node and the reason, and the `up` renews it. Its job is requeued, as declared."""
    before = disks(stamped)
    job = submit(stamped, "sleep 600", "--requeue", "--nodelist=gpu-002")
    wait_for(lambda: state(stamped, job) == "RUNNING", 60)
    asked = stamped.stampworks("roll", "-s", "test", "gpu-002", "--reason", "fan is loud; $(reboot)")
    assert asked.returncode == 0, asked.stderr
    assert "says: fan is loud; $(reboot)" in asked.stdout
    shown = stamped.preview()
    assert "cloud: gpu-002: to be renewed: " in shown
    assert "fan is loud" in shown
    stamped.up()
    after = disks(stamped)
    assert {name for name in after if after[name] != before[name]} == {"gpu-002"}
    assert restarts(stamped, job) == "Restarts=1"
    stamped.shell("head", f"scancel {job}")
    assert "updated" not in stamped.up(), "nothing is left to do"


def test_jobs_outlive_a_new_image(stamped: Stack) -> None:
    """Each node, and the head, is renewed when its own jobs have ended: no job is lost or restarted."""
    before = disks(stamped)
    runs = [submit(stamped, "until test -e /shared/go; do sleep 0.2; done", f"--nodelist=gpu-00{n}") for n in (1, 2)]
    waits = submit(stamped, "true", "--nodelist=gpu-001")
    wait_for(lambda: [state(stamped, job) for job in runs] == ["RUNNING"] * 2, 60)
    stamped.edit("scheduler: {", "scheduler: {accounting: true, ")
    stamped.edit("jobs: requeue", "jobs: wait")
    with stamped.started(*UP) as up:
        assert up.stdout is not None
        seen = ""
        for line in up.stdout:
            seen += line
            if "waiting for job" in line:
                break
        renewed = {name for name, key in disks(stamped).items() if key != before[name]}
        assert renewed == {"head", "gpu-003"}, f"idle nodes first, then those with jobs: {seen}"
        assert [state(stamped, job) for job in runs] == ["RUNNING"] * 2
        stamped.shell("head", "touch /shared/go")
        seen += up.communicate(timeout=300)[0]
    assert up.returncode == 0, seen
    after = disks(stamped)
    assert all(after[name] != before[name] for name in before)
    wait_for(lambda: state(stamped, waits) in ("COMPLETED", ""), 60)
    assert [restarts(stamped, job) for job in runs] == ["Restarts=0"] * 2
    assert [node["verdict"] for node in certificate(stamped)["certificate"]["nodes"]] == ["pass"] * 3
    assert "updated" not in stamped.up()


def test_a_wave_that_fails_stops_the_roll(stamped: Stack) -> None:
    """The node takes no jobs and has a reason; nodes of later waves are untouched; the error says how to continue."""
    stamped.edit("shm_broken: none", "shm_broken: gpu-001")
    before = disks(stamped)
    for name in ("gpu-001", "gpu-002"):
        assert stamped.stampworks("roll", "-s", "test", name, "--reason", "old").returncode == 0
    failed = stamped.run(*UP)
    assert failed.returncode != 0
    assert "the roll has stopped: gpu-001 did not pass after the new disk and takes no jobs" in failed.stdout
    assert "gpu-001 (fail): /dev/shm has 16 MiB, where its peers have" in failed.stdout
    assert "unchanged: gpu-002" in failed.stdout
    assert (
        "stampworks roll gpu-001 --reason TEXT (--machine: another machine); to go back, undo the change and run "
        "pulumi up" in failed.stdout
    )
    assert {name for name, key in disks(stamped).items() if key != before[name]} == {"gpu-001"}
    states = stamped.node_states()
    assert states["gpu-001"].startswith("drained proof: /dev/shm has 16 MiB")
    assert states["gpu-002"].startswith("idle")


def test_the_next_up_goes_on(stamped: Stack) -> None:
    """After the repair the failed node is proven first, then the others follow."""
    before = disks(stamped)
    stamped.edit("shm_broken: gpu-001", "shm_broken: none")
    stamped.shell("gpu-001", "mount -o remount,size=50% /dev/shm")
    stamped.up()
    assert {name for name, key in disks(stamped).items() if key != before[name]} == {"gpu-002"}
    assert all(words.startswith("idle") for words in stamped.node_states().values())
    assert "updated" not in stamped.up()


def test_a_node_that_was_repaired_is_proven_before_others_are_renewed(stamped: Stack) -> None:
    """Otherwise it would count as out of service, and an `up` would stop because of a solved problem. Before the
    repair, `return` refuses it and names the remedy."""
    stamped.shell("gpu-003", "mount -o remount,size=16m /dev/shm")
    assert stamped.stampworks("qualify", "-s", "test", "--nodes", "gpu-003").returncode == 1
    assert stamped.node_states()["gpu-003"].startswith("drained proof: ")
    refused = stamped.stampworks("return", "-s", "test", "gpu-003")
    assert refused.returncode == 1
    assert "`stampworks qualify --nodes gpu-003` measures and returns what passes" in refused.stderr
    stamped.shell("gpu-003", "mount -o remount,size=50% /dev/shm")
    before = disks(stamped)
    assert stamped.stampworks("roll", "-s", "test", "gpu-001", "--reason", "old").returncode == 0
    stamped.up()
    assert {name for name, key in disks(stamped).items() if key != before[name]} == {"gpu-001"}
    assert all(words.startswith("idle") for words in stamped.node_states().values())


def test_a_new_node_takes_no_job_before_it_is_proven(stamped: Stack) -> None:
    """A waiting job starts on the new node after its proof, and not before."""
    fills = submit(stamped, "sleep 600", "--nodes=3")
    waits = submit(stamped, "sleep 600", "--nodes=1")
    wait_for(lambda: state(stamped, fills) == "RUNNING", 60)
    stamped.edit("count: 3", "count: 4")
    with stamped.started(*UP) as up:
        assert up.stdout is not None
        seen = [state(stamped, waits) for line in up.stdout if "asking Slurm about the nodes" in line]
        up.communicate(timeout=300)
    assert up.returncode == 0
    assert seen
    assert set(seen) == {"PENDING"}
    wait_for(lambda: state(stamped, waits) == "RUNNING", 60)
    assert stamped.shell("head", f"squeue --noheader --jobs {waits} --format %N") == "gpu-004"
