"""Clusters that run, on every cloud: promises of the parts `members` and `renewal` to the verbs. On clouds that are
stamped here, also those of `up`, from nothing to nothing, in the order a user meets them."""

from __future__ import annotations

import json
import re

from stampworks import operations
from stampworks.clouds.contract import Members, Renewal
from stampworks.clouds.registry import CLOUDS, needed
from stampworks.plan import Member, Roster

from tests.cluster.stack import Stack, host
from tests.conformance.running import NODES, Running
from tests.project import wait_for

BUSY = "squeue --noheader --states running --format %N"
CHANGED = re.compile(r"\d+ (created|updated|replaced|deleted)")


def nothing_changes(stack: Stack) -> None:
    """Check that another `up` changes nothing."""
    said = stack.up()
    assert not CHANGED.search(said), said
    assert "unchanged" in said


def test_an_up_stamps_the_cluster_and_a_second_one_changes_nothing(stack: Stack, before: str) -> None:
    """The same declaration, the same cluster. Nothing of it is in the host's own network or mounts."""
    assert "created" in stack.up()
    assert host() == before
    nothing_changes(stack)


def test_jobs_run_on_all_nodes(stack: Stack) -> None:
    """The scheduler takes a job and every node answers."""
    done = stack.stampworks("run", "-s", "test", "--nodes", "2", "--", "hostname")
    assert sorted(done.stdout.split()) == [*NODES], done.stderr


def test_secrets_are_encrypted_in_the_state(stack: Stack) -> None:
    """Neither private keys nor passwords can be read from what the backend holds."""
    resources = stack.resources()
    keyring = resources[f"Keyring {stack.cluster}"]["outputs"]
    assert all("ciphertext" in keyring[name] for name in ("sshPrivateKey", "slurmKey", "databasePassword"))
    assert "ciphertext" in resources[f"Playbook {stack.cluster}"]["inputs"]["secrets"]
    assert "PRIVATE KEY" not in str(resources)


def parts(running: Running) -> tuple[Members, Renewal]:
    """Return the parts of the cluster's cloud."""
    own = CLOUDS[running.plan.cloud]
    return needed(own.members, "members", running.plan.cloud)(), needed(own.renewal, "renewal", running.plan.cloud)()


def seen(running: Running) -> Roster:
    return parts(running)[0].members(running.plan.name, running.plan.region)


def of_nodes(roster: Roster) -> dict[str, Member]:
    return {each.name: each for each in roster.members if each.name in NODES}


def always(running: Running) -> dict[str, tuple[str, ...]]:
    """Return the nodes of each group that always run, as an `up` gives them to the cloud."""
    return {group.name: tuple(node.name for node in group.nodes) for group in running.plan.pools}


def test_members_are_the_nodes_of_the_plan(running: Running) -> None:
    """Each with its group, and an instance, an address and a host key that no other node has."""
    roster, plan = seen(running), running.plan
    assert (roster.cluster, roster.cloud) == (plan.name, plan.cloud)
    found = of_nodes(roster)
    assert [*found] == [*NODES]
    assert {each.group for each in found.values()} == {"gpu"}
    for fact in ("instance", "address", "host_key"):
        values = {getattr(each, fact) for each in roster.members}
        assert len(values - {""}) == len(roster.members), fact


def test_a_host_key_is_known_and_never_taken_silently(running: Running) -> None:
    """ssh knows the key that the cloud has reported, and no other, before it connects."""
    roster = seen(running)
    for member in roster.members:
        assert re.fullmatch(r"ssh-ed25519 [A-Za-z0-9+/]+=*", member.host_key)
        command = operations.ssh_command(roster, member.name, ["true"])
        options = {word.partition("=")[0].partition(" ")[0]: word for word in command}
        assert options["StrictHostKeyChecking"].endswith("yes")
        assert member.host_key in options["KnownHostsCommand"]
        assert options["UserKnownHostsFile"].endswith(("none", "/dev/null"))


def test_a_cluster_that_does_not_run_has_no_members(running: Running) -> None:
    """Nor endings; and neither is an error."""
    own, region = parts(running)[0], running.plan.region
    assert own.members("absent", region).members == ()
    assert own.endings("absent", region) == ()


def test_a_complete_cluster_stays_as_it_is(running: Running) -> None:
    """Joining, tags and dismissal of nodes that are in place change no member, however often; nothing is refused, and
    capacity without an end has none."""
    own, plan = parts(running)[0], running.plan
    before, wanted = seen(running), always(running)
    tags = CLOUDS[plan.cloud].resources().place.cost_tags(plan)
    for _ in range(2):
        own.join(plan.name, plan.region, wanted)
        own.retag(plan.name, plan.region, tags, ())
        assert [*own.misplaced(plan.name, plan.region, wanted)] == []
        own.dismiss(plan.name, plan.region, wanted, NODES)
        assert own.refusals(plan.name, plan.region, [*wanted]) == ()
        assert own.endings(plan.name, plan.region) == ()
    assert seen(running) == before


def test_a_dead_node_is_missed_and_comes_back_under_its_name(running: Running) -> None:
    """It is no member while it is dead. The next `up` completes the group, and leaves the other node alone."""
    before = of_nodes(seen(running))
    dead, alive = NODES
    running.kill(dead)
    wait_for(lambda: [*of_nodes(seen(running))] == [alive], 20)
    running.heal()
    after = of_nodes(seen(running))
    assert after[alive] == before[alive]
    assert after[dead].instance != before[dead].instance


def test_nothing_is_outdated_until_something_changes(running: Running) -> None:
    """Another installation outdates every node, with a reason for each."""
    renewal, plan = parts(running)[1], running.plan
    assert renewal.outdated(plan, running.content) == {}
    late = renewal.outdated(plan, "another content")
    assert {*NODES} <= {*late}
    assert all(late.values())


def test_a_condemned_node_is_outdated_until_it_is_renewed(running: Running) -> None:
    """A condemnation is a reason that a person reads, and can be taken back. A renewed node keeps its name, and is
    known by the key of its new disk. The other node is left alone."""
    renewal, plan, content, said = parts(running)[1], running.plan, running.content, list[str]()
    before, (first, second) = of_nodes(seen(running)), NODES
    renewal.condemn(plan, NODES, "alice says: fans")
    assert dict(renewal.outdated(plan, content)) == dict.fromkeys(NODES, "alice says: fans")
    renewal.condemn(plan, [second], "")
    assert dict(renewal.outdated(plan, content)) == {first: "alice says: fans"}
    renewal.renew(plan, content, [first], said.append)
    after = of_nodes(seen(running))
    assert renewal.outdated(plan, content) == {}
    assert after[second] == before[second]
    assert after[first].instance != before[first].instance
    assert after[first].host_key
    assert any(first in line for line in said)
    running.heal()


def test_another_stack_does_not_take_the_cluster_over(stack: Stack) -> None:
    """Two stacks may declare clusters with the same name. The second gets an error with the owner, and changes
    nothing."""
    before = stack.nodes()
    assert stack.run("stack", "init", "other").returncode == 0
    file = stack.file.with_name("Pulumi.other.yaml")
    own = "".join(line for line in stack.file.read_text().splitlines(keepends=True) if "encryptionsalt" not in line)
    file.write_text(own + file.read_text())
    refused = stack.run("up", "--yes", "--skip-preview", "--stack", "other")
    assert refused.returncode != 0
    assert f"cluster {stack.cluster}: " in refused.stdout
    assert "belongs to another stack: to stack test of project test, claim" in refused.stdout
    assert stack.run("destroy", "--yes", "--skip-preview", "--stack", "other", "--remove").returncode == 0
    stack.run("stack", "select", "test")
    assert stack.nodes() == before


def test_a_sibling_is_equal_until_somebody_edits_it(stack: Stack) -> None:
    """Held against what the backend says was stamped: only the sibling was not, and only one of the two was edited."""
    sibling = stack.file.with_name("Pulumi.sibling.yaml")
    assert stack.stampworks("new", "sibling", "--from", "test").returncode == 0
    assert "encryptionsalt" not in sibling.read_text()
    equal = stack.stampworks("compare", "test", "sibling")
    assert equal.returncode == 0, equal.stdout + equal.stderr
    assert "; stamped as declared\n" in equal.stdout
    assert "; not stamped yet\n" in equal.stdout
    sibling.write_text(sibling.read_text().replace("count: 2", "count: 3"))
    stack.edit("drain_timeout_minutes: 1", "drain_timeout_minutes: 2")
    different = stack.stampworks("compare", "test", "sibling")
    stack.edit("drain_timeout_minutes: 2", "drain_timeout_minutes: 1")
    sibling.unlink()
    assert different.returncode == 1
    assert "  pool gpu: 2 nodes in test, 3 in sibling\n" in different.stdout
    assert "  scheduler drain timeout: 2 min in test, 1 min in sibling\n" in different.stdout
    assert "  test was stamped from an earlier declaration: fingerprint " in different.stdout


NASTY = """it's "bad" `reboot` $(reboot) | a=b state=idle; ü\\n 'quoted' "q\""""


def test_a_person_drains_a_node(stack: Stack) -> None:
    """The drain has any reason, and stays through the `up` of the next test."""
    drained = stack.stampworks("drain", "-s", "test", "gpu-001", "--reason", NASTY, "--wait")
    assert drained.returncode == 0, drained.stderr
    assert held(stack) == {"gpu-001": ("person", NASTY)}
    # another one in the state that a killed `up` leaves
    stack.shell("head", "scontrol update nodename=gpu-002 state=drain reason='stampworks: gets a new disk'")
    assert held(stack)["gpu-002"] == ("stampworks", "gets a new disk")


def held(stack: Stack) -> dict[str, tuple[str, str]]:
    """Return the held nodes, with author and reason."""
    nodes = json.loads(stack.stampworks("status", "-s", "test", "--json").stdout)["nodes"]
    return {each["name"]: (each["reason"]["by"], each["reason"]["text"]) for each in nodes if each["reason"]}


def test_a_plain_preview_sees_a_dead_node_and_up_restarts_it(stack: Stack) -> None:
    """The preview shows the group, and the roll, roster and playbook that depend on it, without --refresh."""
    others = {name: node["instance"] for name, node in stack.nodes().items() if name != "gpu-002"}
    stack.kill("gpu-002")
    shown = stack.preview()
    assert "cloud: gpu" in shown
    assert re.search(r"~ \d+ to update", shown)
    assert re.search(r"~ \d+ updated", stack.up())
    after = {name: node["instance"] for name, node in stack.nodes().items()}
    assert after.pop("gpu-002")
    assert after == others, "nobody else was touched"
    nothing_changes(stack)


def test_an_up_gives_back_its_own_drains_and_no_others(stack: Stack) -> None:
    """The previous `up` configured all nodes again: a user's drain stays until the user returns the node."""
    assert held(stack) == {"gpu-001": ("person", NASTY)}
    assert stack.stampworks("status", "-s", "test").returncode == 1
    returned = stack.stampworks("return", "-s", "test", "gpu-001")
    assert returned.returncode == 0, returned.stdout + returned.stderr
    assert stack.stampworks("status", "-s", "test").returncode == 0


def test_a_node_more_leaves_the_others_alone(stack: Stack) -> None:
    """Growth starts one node; those that run keep running."""
    before = {name: node["instance"] for name, node in stack.nodes().items()}
    stack.edit("count: 2", "count: 3")
    stack.up()
    after = {name: node["instance"] for name, node in stack.nodes().items()}
    assert after.keys() - before.keys() == {"gpu-003"}
    assert {name: after[name] for name in before} == before


def test_a_node_that_leaves_finishes_its_job_first(stack: Stack) -> None:
    """Shrinking waits for the job on the node that goes."""
    job = "until test -e /shared/go; do sleep 0.2; done; touch /shared/finished"
    stack.shell("head", f"sbatch -w gpu-003 --wrap '{job}'")
    wait_for(lambda: "gpu-003" in stack.shell("head", BUSY), 30)
    stack.edit("count: 3", "count: 2")
    with stack.started("up", "--yes", "--skip-preview") as up:
        assert up.stdout is not None
        assert any("waiting for job" in line for line in up.stdout)
        assert stack.stampworks("ssh", "-s", "test", "head", "--", "touch", "/shared/go").returncode == 0
        up.communicate(timeout=120)
    assert up.returncode == 0
    assert set(stack.nodes()) == {"head", "gpu-001", "gpu-002"}
    stack.shell("head", "test -e /shared/finished")


def test_a_room_that_ended_is_made_again(stack: Stack) -> None:
    """The room is gone, as after a reboot, and `up` restores the cluster with its data."""
    stack.end_room()
    stack.up()
    nothing_changes(stack)
    stack.shell("head", "test -e /shared/finished")


def test_destroy_leaves_the_machine_as_it_was(stack: Stack, before: str) -> None:
    """No process, mount, interface, address or file of the room is left."""
    stack.destroy()
    assert stack.resources() == {}
    assert stack.traces() == []
    assert host() == before
