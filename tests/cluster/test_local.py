"""A real cluster on this machine, from creation to deletion: the promises of `up`, in a user's order."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cluster.stack import DECLARATION
from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster

RUNNING = "squeue --noheader --states running --format %N"


def host() -> str:
    """Return the traces that a machine room could leave on this machine: interfaces, addresses, mounts."""
    commands = (["ip", "-o", "link"], ["ip", "-o", "address"], ["findmnt", "--raw", "-o", "TARGET,SOURCE"])
    return "\n".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands)


@pytest.fixture(scope="module")
def before() -> str:
    return host()


@pytest.fixture(scope="module")
def stamped(stack: Stack, before: str) -> Stack:
    """The cluster, stamped."""
    assert "+ 12 created" in stack.up()
    assert host() == before, "nothing of it is in the host's own network or mounts"
    return stack


def test_a_second_up_changes_nothing(stamped: Stack) -> None:
    """The same declaration, the same cluster."""
    assert "12 unchanged" in stamped.up()


def test_jobs_run_on_all_nodes(stamped: Stack) -> None:
    """The scheduler takes a job, and every node answers."""
    done = stamped.stampworks("run", "-s", "test", "--nodes", "2", "--", "hostname")
    assert sorted(done.stdout.split()) == ["gpu-001", "gpu-002"], done.stderr


def test_secrets_are_encrypted_in_the_state(stamped: Stack) -> None:
    """The backend's files contain no readable private key or password."""
    resources = stamped.resources()
    keyring = resources[f"Keyring {stamped.cluster}"]["outputs"]
    assert all("ciphertext" in keyring[name] for name in ("sshPrivateKey", "slurmKey", "databasePassword"))
    assert "ciphertext" in resources[f"Playbook {stamped.cluster}"]["inputs"]["secrets"]
    assert "PRIVATE KEY" not in str(resources)


def test_another_stack_does_not_take_over_a_room(stamped: Stack) -> None:
    """Two stacks may declare clusters with the same name. The second gets an error with the owner, and changes
    nothing."""
    before = stamped.nodes()
    assert stamped.run("stack", "init", "other").returncode == 0
    file = stamped.file.with_name("Pulumi.other.yaml")
    file.write_text(DECLARATION.format(cluster=stamped.cluster) + file.read_text())
    refused = stamped.run("up", "--yes", "--skip-preview", "--stack", "other")
    assert refused.returncode != 0
    owner = "the machine room belongs to another stack: to stack test of project test, claim"
    assert f"cluster {stamped.cluster}: {owner}" in refused.stdout
    assert stamped.run("destroy", "--yes", "--skip-preview", "--stack", "other", "--remove").returncode == 0
    stamped.run("stack", "select", "test")
    assert stamped.nodes() == before


def test_a_sibling_is_equal_until_somebody_edits_it(stamped: Stack) -> None:
    """The comparison uses the stamped state: only the sibling was not stamped, and only one stack was edited."""
    sibling = stamped.file.with_name("Pulumi.sibling.yaml")
    assert stamped.stampworks("new", "sibling", "--from", "test").returncode == 0
    assert "encryptionsalt" not in sibling.read_text()
    equal = stamped.stampworks("compare", "test", "sibling")
    assert equal.returncode == 0, equal.stdout + equal.stderr
    assert "; stamped as declared\n" in equal.stdout
    assert "; not stamped yet\n" in equal.stdout
    sibling.write_text(sibling.read_text().replace("count: 2", "count: 3"))
    stamped.edit("drain_timeout_minutes: 1", "drain_timeout_minutes: 2")
    different = stamped.stampworks("compare", "test", "sibling")
    stamped.edit("drain_timeout_minutes: 2", "drain_timeout_minutes: 1")
    sibling.unlink()
    assert different.returncode == 1
    assert "  pool gpu: 2 nodes in test, 3 in sibling\n" in different.stdout
    assert "  scheduler drain timeout: 2 min in test, 1 min in sibling\n" in different.stdout
    assert "  test was stamped from an earlier declaration: fingerprint " in different.stdout


NASTY = """it's "bad" `reboot` $(reboot) | a=b state=idle; ü\\n 'quoted' "q\""""


def test_a_person_drains_a_node(stamped: Stack) -> None:
    """The drain has any reason, and stays through the `up` of the next test."""
    drained = stamped.stampworks("drain", "-s", "test", "gpu-001", "--reason", NASTY, "--wait")
    assert drained.returncode == 0, drained.stderr
    assert held(stamped) == {"gpu-001": ("person", NASTY)}
    # another one in the state that a killed `up` leaves
    stamped.shell("head", "scontrol update nodename=gpu-002 state=drain reason='stampworks: gets a new disk'")
    assert held(stamped)["gpu-002"] == ("stampworks", "gets a new disk")


def held(stack: Stack) -> dict[str, tuple[str, str]]:
    """Return the held nodes, with author and reason."""
    nodes = json.loads(stack.stampworks("status", "-s", "test", "--json").stdout)["nodes"]
    return {each["name"]: (each["reason"]["by"], each["reason"]["text"]) for each in nodes if each["reason"]}


def test_a_plain_preview_sees_a_dead_node_and_up_restarts_it(stamped: Stack) -> None:
    """The preview shows the group, and the roll, roster and playbook that depend on it, without --refresh."""
    others = {name: node["instance"] for name, node in stamped.nodes().items() if name != "gpu-002"}
    stamped.kill("gpu-002")
    shown = stamped.preview()
    assert "cloud: gpu-002: the node is dead" in shown
    assert "~ 4 to update" in shown
    assert "~ 4 updated" in stamped.up()
    after = {name: node["instance"] for name, node in stamped.nodes().items()}
    assert after.pop("gpu-002")
    assert after == others, "nobody else was touched"
    assert "12 unchanged" in stamped.up()


def test_an_up_gives_back_its_own_drains_and_no_others(stamped: Stack) -> None:
    """The previous `up` configured all nodes again: a user's drain stays until the user returns the node."""
    assert held(stamped) == {"gpu-001": ("person", NASTY)}
    assert stamped.stampworks("status", "-s", "test").returncode == 1
    returned = stamped.stampworks("return", "-s", "test", "gpu-001")
    assert returned.returncode == 0, returned.stdout + returned.stderr
    assert stamped.stampworks("status", "-s", "test").returncode == 0


def test_a_node_more_leaves_the_others_alone(stamped: Stack) -> None:
    """Growth starts one node; those that run keep running."""
    before = {name: node["instance"] for name, node in stamped.nodes().items()}
    stamped.edit("count: 2", "count: 3")
    stamped.up()
    after = {name: node["instance"] for name, node in stamped.nodes().items()}
    assert after.keys() - before.keys() == {"gpu-003"}
    assert {name: after[name] for name in before} == before


def test_a_node_that_leaves_finishes_its_job_first(stamped: Stack) -> None:
    """Shrinking waits for the job on the leaving node."""
    job = "until test -e /shared/go; do sleep 0.2; done; touch /shared/finished"
    stamped.shell("head", f"sbatch -w gpu-003 --wrap '{job}'")
    wait_for(lambda: "gpu-003" in stamped.shell("head", RUNNING), 30)
    stamped.edit("count: 3", "count: 2")
    with stamped.started("up", "--yes", "--skip-preview") as up:
        assert up.stdout is not None
        assert any("waiting for job" in line for line in up.stdout)
        assert stamped.stampworks("ssh", "-s", "test", "head", "--", "touch", "/shared/go").returncode == 0
        up.communicate(timeout=120)
    assert up.returncode == 0
    assert set(stamped.nodes()) == {"head", "gpu-001", "gpu-002"}
    stamped.shell("head", "test -e /shared/finished")


def test_a_room_that_ended_is_made_again(stamped: Stack) -> None:
    """The room is gone, as after a reboot, and `up` restores the cluster with its data."""
    stamped.end_room()
    stamped.up()
    assert "12 unchanged" in stamped.up()
    stamped.shell("head", "test -e /shared/finished")


def test_destroy_leaves_the_machine_as_it_was(stamped: Stack, before: str) -> None:
    """No process, mount, interface, address or file of the room is left."""
    stamped.destroy()
    assert stamped.resources() == {}
    assert stamped.traces() == []
    assert host() == before
