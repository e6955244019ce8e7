"""A roll: the order of nodes and steps, and messages when it stops."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest
from stampworks import planning
from stampworks.configuration import PlaybookFailed
from stampworks.configuration.run import Recap, TaskFailure
from stampworks.declaration import load_value
from stampworks.operations import Order, RollStoppedError, condemn, gathering, roll
from stampworks.operations.errors import InputError
from stampworks.operations.roll import next_wave
from stampworks.plan import Plan, Roster
from stampworks.qualification import Certificate, NodeVerdict, proven_digest, subject_of
from stampworks.text.reasons import STARTED_AGAIN, UNPROVEN, DrainReason, written

from tests.operations.slurm.standin import StandIn, job, node

NAMES = [f"gpu-{n:03}" for n in range(1, 9)]


def the_plan(count: int = 8, level: str = "quick", **more: Any) -> Plan:
    declared = {
        "version": 1,
        "name": "local",
        "cloud": "local",
        "pools": [{"name": "gpu", "machine": "sim-h100", "count": count}],
        "fabric": {"rail_rate_mbps": 200, "leaf_nodes": 4},
        "proof": {"level": level},
        **more,
    }
    return planning.plan(load_value(declared, "test"))


# -- order


def test_a_wave_is_of_one_leaf() -> None:
    """A wave stays on a leaf, whatever the limit is, so that a failure affects a single place."""
    plan = the_plan(roll={"max_unavailable_percent": 100})
    assert next_wave(plan, NAMES, (), ()) == NAMES[:4]
    assert next_wave(plan, NAMES[3:], (), ()) == [NAMES[3]]
    assert next_wave(plan, NAMES[4:], (), ()) == NAMES[4:]
    assert next_wave(plan, (), (), ()) == []


def test_no_more_are_out_than_may_be() -> None:
    """Nodes that are already out of service count, for any reason."""
    plan = the_plan()  # 25% of 8
    assert next_wave(plan, NAMES, (), ()) == NAMES[:2]
    assert next_wave(plan, NAMES[:7], (NAMES[7],), ()) == NAMES[:1]
    assert next_wave(plan, NAMES[:6], NAMES[6:], ()) == []


def test_nodes_that_nobody_misses_come_first() -> None:
    """Down nodes are renewed first, then idle ones, then busy ones, so that no idle node waits for a job."""
    plan = the_plan()
    assert next_wave(plan, NAMES, (NAMES[5],), ()) == [NAMES[5]]
    assert next_wave(plan, NAMES, (), NAMES[:5]) == NAMES[5:7]
    assert next_wave(plan, NAMES[:3], (), NAMES[:3]) == NAMES[:2]
    assert next_wave(plan, NAMES[:2], NAMES[:1], NAMES[:1]) == NAMES[1:2], "one that is silent and has a job can wait"


def test_one_node_may_always_be_out() -> None:
    """A pool of a single node could otherwise never be renewed."""
    assert dict(the_plan(1).roll.unavailable_max) == {"gpu": 1}
    assert dict(the_plan(6).roll.unavailable_max) == {"gpu": 1}
    assert dict(the_plan(8).roll.unavailable_max) == {"gpu": 2}


# -- progress


class Cloud:
    """A stand-in for a cloud's module `renewal`: it knows outdated nodes, and records the order of actions."""

    class Failure(Exception):  # noqa: N818  (as clouds call theirs)
        """Errors of such a module."""

    def __init__(self, late: dict[str, str], happened: list[str]) -> None:
        self.late, self.happened = late, happened

    def outdated(self, _plan: Plan, _content: str) -> dict[str, str]:
        return dict(self.late)

    def renew(self, _plan: Plan, _content: str, names: Collection[str], _progress: Any) -> None:
        self.happened.append(f"renew {','.join(names)}")
        for name in names:
            self.late.pop(name, None)

    def condemn(self, _cluster: str, names: Collection[str], why: str, _machine: bool = False) -> None:
        for name in names:
            self.late.pop(name, None)
        self.late |= dict.fromkeys(names, why) if why else {}


class World:
    """A cluster of two nodes with a cloud, playbook and proof of the test."""

    def __init__(self, cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.happened = cluster, list[str]()
        self.cloud = Cloud({"gpu-001": "old", "gpu-002": "old"}, self.happened)
        self.joins: list[Callable[[], None]] = []
        """Actions at each check whether all nodes exist."""
        self.verdicts: dict[str, NodeVerdict] = {}
        self.kept: list[Certificate] = []
        self.without: list[list[str]] = []
        self.repaired = set[str]()
        """Nodes that are proven without a renewal."""
        module = importlib.import_module(
            "stampworks.operations.roll"
        )  # the package exports a function of the same name
        monkeypatch.setattr(module, "renewal", lambda _: self.cloud)
        monkeypatch.setattr(module, "members", lambda *_: cluster.roster)
        monkeypatch.setattr(module, "qualify", self.qualify)
        answers = {"join": self.join, "refusals": lambda *_: (), "PATIENCE_S": 0.1, "POLL_S": 0.01}
        monkeypatch.setattr(gathering, "cloud", lambda _: SimpleNamespace(**answers))
        monkeypatch.setattr(gathering, "members", lambda *_: cluster.roster)

    def qualify(self, subject: Any, _: Roster, level: str, __: Any, names: Collection[str], **more: Any) -> Any:
        self.happened.append(f"prove {','.join(names)}")
        self.without.append(sorted(more["without"]))
        assert level == "quick"
        known = {each["name"]: each["reason"] for each in self.nodes()}
        if not self.repaired.issuperset(names):
            assert set(names) <= set(self.cloud.late), "if it is killed now, they are made anew"
            assert all(known[name].startswith(written(UNPROVEN)) for name in names), (
                "nobody may take a job before it has passed"
            )
        nodes = [self.verdicts.get(name) or verdict(name, "pass") for name in names]
        for each in nodes:
            if each.verdict == "pass" or each.name not in self.repaired:
                self.cluster_update(each.name, "resume")
        terms = proven_digest(subject, more["programs"])
        return dataclasses.replace(EMPTY, cluster=subject.cluster, proven=terms, nodes=tuple(nodes))

    def join(self, *_: object) -> None:
        if self.joins:
            self.joins.pop(0)()

    def cluster_update(self, name: str, state: str) -> None:
        items = [
            {**each, "state": ["IDLE"]} if each["name"] == name and state == "resume" else each for each in self.nodes()
        ]
        self.cluster.nodes(*items)

    def nodes(self) -> list[dict[str, Any]]:
        return list(json.loads((self.cluster.folder / "nodes.json").read_text())["nodes"])

    def play(self, _roster: Roster, hosts: Collection[str]) -> None:
        self.happened.append(f"play {','.join(hosts)}")

    def roll(self, plan: Plan, earlier: Certificate | None = None) -> dict[str, str]:
        """Run a roll and return the verdicts by node."""
        roll(Order(plan, "content", "programs", "fingerprint"), earlier, print, self.play, self.kept.append)
        return {each.name: each.verdict for each in self.kept[-1].nodes} if self.kept else {}


EMPTY = Certificate(1, "local", "local", "", "", "", "quick", "pass", "", "", (), (), (), (), "")


PASSED = dataclasses.replace(EMPTY, nodes=(NodeVerdict("gpu-001", "1", "pass", False, "", ()),))


def verdict(name: str, what: Any, *why: str) -> NodeVerdict:
    return NodeVerdict(name, "1", what, what == "fail", "", why)


@pytest.fixture
def world(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(cluster, monkeypatch)


def test_each_wave_is_proven_before_the_next(world: World) -> None:
    """The head's configuration first, then drain, new disk, configuration, proof, node by node."""
    assert world.roll(the_plan(2)) == {"gpu-001": "pass", "gpu-002": "pass"}
    assert world.without == [["gpu-002"], []], "what runs on the others is something else"
    assert world.happened == [
        "play head",
        *("renew gpu-001", "play gpu-001", "prove gpu-001"),
        *("renew gpu-002", "play gpu-002", "prove gpu-002"),
    ]
    assert [line.split(" ", 2)[1] for line in world.cluster.updates] == ["nodename=gpu-001"] * 2 + [
        "nodename=gpu-002"
    ] * 2


def test_everybody_sees_why_a_node_is_made_anew(world: World) -> None:
    """Slurm shows the reason given to `stampworks roll` until the node has passed."""
    world.cloud.late = {"gpu-001": 'alice says: fan "1" is loud' + " and louder" * 30}
    world.roll(the_plan(2))
    renewed, unproven = world.cluster.updates
    assert 'reason="stampworks: gets a new disk: alice says: fan  1  is loud and louder' in renewed
    assert 'reason="proof: not proven yet: alice says: fan  1  is loud and louder' in unproven
    assert {len(line.partition('reason="')[2].removesuffix('"')) for line in world.cluster.updates} == {255}


def test_nothing_is_done_where_nothing_is_outdated(world: World) -> None:
    """The head is not asked either."""
    world.cloud.late = {}
    assert world.roll(the_plan(2)) == {}
    assert world.happened == []


def test_the_head_is_made_anew_before_all_others(world: World) -> None:
    """A newer scheduler gets on with older nodes."""
    world.cloud.late["head"] = "old"
    world.roll(the_plan(2))
    assert world.happened[:3] == ["renew head", "play head", "renew gpu-001"]


def test_login_nodes_come_one_by_one_before_those_with_jobs(world: World) -> None:
    """Slurm does not drain login nodes, and users can go to another one."""
    world.cluster.roster = with_logins(world.cluster.roster)
    world.cloud.late |= {"login-001": "old", "login-002": "old"}
    world.roll(the_plan(2, scheduler={"login_nodes": 2}))
    assert world.happened[:6] == [
        "play head",
        *("renew login-001", "play login-001"),
        *("renew login-002", "play login-002"),
        "renew gpu-001",
    ]


def with_logins(roster: Roster) -> Roster:
    logins = [dataclasses.replace(roster.members[0], name=f"login-00{n}", group="login") for n in (1, 2)]
    return dataclasses.replace(roster, members=(*roster.members, *logins))


def test_without_a_proof_nodes_are_given_back_as_they_are(world: World) -> None:
    """The declaration asks for no proof."""
    assert world.roll(the_plan(2, "none")) == {}
    assert "prove gpu-001" not in world.happened
    assert [each["state"] for each in world.nodes()] == [["IDLE"], ["IDLE"]]


def test_a_node_that_fails_stops_it(world: World) -> None:
    """Renewed and untouched nodes, and both remedies are named; measurements are kept."""
    world.verdicts["gpu-001"] = verdict("gpu-001", "fail", "rail1 is slow")
    with pytest.raises(RollStoppedError) as caught:
        world.roll(the_plan(2))
    assert str(caught.value) == (
        "the roll has stopped: gpu-001 did not pass after the new disk and takes no jobs\n"
        "  gpu-001 (fail): rail1 is slow\n"
        "  unchanged: gpu-002\n"
        "  hint: repair the named problem and run pulumi up, which proves gpu-001 again and goes on; for another "
        "new disk: stampworks roll gpu-001 --reason TEXT (--machine: another machine); to go back, undo the "
        "change and run "
        "pulumi up"
    )
    assert "renew gpu-002" not in world.happened
    assert [each.verdict for each in world.kept[-1].nodes] == ["fail"]


def test_as_many_may_fail_as_declared(world: World) -> None:
    """Failed nodes are held; an unknown result does not count as an allowed failure."""
    world.verdicts["gpu-001"] = verdict("gpu-001", "fail", "rail1 is slow")
    plan = the_plan(2, proof={"level": "quick", "failed_nodes_max": 1})
    assert world.roll(plan)
    world.cloud.late = {"gpu-001": "old"}
    world.verdicts["gpu-001"] = verdict("gpu-001", "unknown", "no answer")
    with pytest.raises(RollStoppedError, match=r"gpu-001 \(unknown\): no answer"):
        world.roll(plan)


def test_the_next_roll_proves_first_who_failed(world: World) -> None:
    """The failed node already has its new disk; only the others are renewed."""
    world.cloud.late = {"gpu-002": "old"}
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="proof: rail1 is slow"), node("gpu-002"))
    earlier = dataclasses.replace(EMPTY, nodes=(verdict("gpu-001", "fail", "rail1 is slow"),))
    world.roll(the_plan(2), earlier)
    first = world.happened.index("prove gpu-001")
    assert world.happened[:first] == ["play head", "renew ", "play gpu-001"]
    assert "renew gpu-002" in world.happened[first:]


@pytest.mark.parametrize("reason", ["stampworks: gets a new disk", "proof: not proven yet"])
def test_one_that_was_killed_is_gone_on_with(world: World, reason: str) -> None:
    """Slurm's drain reasons identify the nodes of the killed roll."""
    world.cloud.late = {}
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason=reason), node("gpu-002"))
    world.roll(the_plan(2))
    assert "prove gpu-001" in world.happened


@pytest.mark.parametrize(
    "reason",
    [
        *("person alice: fans", "health: disk full", "proof: rail1 is slow", written(STARTED_AGAIN)),
        "cloud: spot instance: terminate at noon",
    ],
)
def test_roll_leaves_nodes_held_by_others(world: World, reason: str) -> None:
    """A person's, the health check's, or that of a proof which no roll asked for."""
    world.cloud.late = {}
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason=reason), node("gpu-002"))
    assert world.roll(the_plan(2), PASSED) == {}
    assert world.happened == []


@pytest.mark.parametrize("level", ["none", "quick"])
@pytest.mark.parametrize("reason", ["health: disk full", "Kill task failed"])
def test_new_disk_ends_a_drain(world: World, reason: str, level: str) -> None:
    """With the new disk the node takes jobs again, whatever held it before."""
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason=reason), node("gpu-002"))
    world.roll(the_plan(2, level))
    assert [each["state"] for each in world.nodes()] == [["IDLE"], ["IDLE"]]


def test_a_machine_that_its_cloud_ends_stays_held(world: World) -> None:
    """The node gets a new disk, and still takes no jobs."""
    reason = "cloud: scheduled event: system-reboot at noon"
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason=reason), node("gpu-002"))
    del world.cloud.late["gpu-002"]
    world.roll(the_plan(2))
    assert "renew gpu-001" in world.happened
    assert "prove gpu-001" not in world.happened
    assert (world.nodes()[0]["state"], world.nodes()[0]["reason"]) == (["IDLE", "DRAIN"], reason)


def test_new_disk_does_not_clear_a_failed_proof(world: World) -> None:
    """A slow rail stays slow with a new disk: only the proof after the roll returns the node."""
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="proof: rail1 is slow"), node("gpu-002"))
    del world.cloud.late["gpu-002"]
    world.roll(the_plan(2), PASSED)
    assert "renew gpu-001" in world.happened
    assert "prove gpu-001" not in world.happened
    assert world.nodes()[0]["reason"] == "proof: rail1 is slow"


@pytest.mark.parametrize("reason", ["stampworks: gets a new disk", "proof: not proven yet"])
def test_the_wave_in_which_it_was_killed_comes_first(world: World, reason: str) -> None:
    """The roll itself drained its nodes, including busy ones."""
    world.cluster.nodes(node("gpu-001"), node("gpu-002", "MIXED", "DRAIN", reason=reason))
    world.cluster.jobs([job(7, "alice", "gpu-002")], [job(7, "alice", "gpu-002")], [])
    world.roll(the_plan(2))
    assert [line for line in world.happened if "renew" in line] == ["renew gpu-002", "renew gpu-001"]


def test_certificates_survive_later_failures(world: World) -> None:
    """Certificates survive failures and later rolls, while their terms stay the same."""
    world.cloud.late = {"gpu-001": "old"}
    world.roll(the_plan(2))
    first = world.kept[-1]
    world.cloud.late = {"gpu-002": "old"}
    assert world.roll(the_plan(2), first) == {"gpu-001": "pass", "gpu-002": "pass"}
    world.cloud.late = {"gpu-002": "old"}
    assert world.roll(the_plan(2, "standard"), first) == {"gpu-002": "pass"}


def test_a_playbook_that_fails_says_how_far_the_roll_has_come(world: World) -> None:
    """The node is held until the next roll has configured and proven it."""

    def play(_roster: Roster, hosts: Collection[str]) -> None:
        if "gpu-002" in hosts:
            raise PlaybookFailed("site.yml", Recap(1, 0, (TaskFailure("gpu-002", "base : x", "no room"),)))

    world.play = play  # type: ignore[method-assign]
    with pytest.raises(RollStoppedError) as caught:
        world.roll(the_plan(2))
    assert "the roll has stopped: site.yml failed on 1 host" in str(caught.value)
    assert "renewed: gpu-001" in str(caught.value)
    assert "run pulumi up, which continues" in str(caught.value)
    assert world.nodes()[1]["reason"] == f"{written(UNPROVEN)}: old"
    assert [each.name for each in world.kept[-1].nodes] == ["gpu-001"]


def test_a_pool_that_is_taken_out_lets_its_jobs_end(world: World) -> None:
    """Its nodes are no longer in the inventory; the head's new configuration waits for their jobs."""
    gone = dataclasses.replace(world.cluster.roster.members[2], group="old")
    world.cluster.roster = dataclasses.replace(world.cluster.roster, members=(*world.cluster.roster.members[:2], gone))
    seen: list[list[str]] = []

    def play(roster: Roster, _hosts: Collection[str]) -> None:
        seen.append([member.name for member in roster.members])

    world.play = play  # type: ignore[assignment, method-assign]
    world.cloud.late = {"gpu-001": "old"}
    world.roll(the_plan(1))
    assert world.cluster.updates[0] == 'update nodename=gpu-002 state=drain reason="stampworks: leaves the cluster"'
    assert seen[0] == ["gpu-001", "head"]


def test_all_have_to_be_there_before_anything_is_done(world: World) -> None:
    """The configuration must not depend on a node that has just died."""
    world.cluster.roster = world.cluster.without("gpu-002")
    del world.cloud.late["gpu-002"]
    with pytest.raises(RollStoppedError) as caught:
        world.roll(the_plan(2))
    assert str(caught.value) == (
        "the roll has stopped: gpu: 1 of 2 members after 0 s\n"
        "  unchanged: gpu-001\n"
        "  hint: pulumi up restarts dead nodes; to go back, undo the change and run pulumi up"
    )
    assert world.happened == []


@pytest.mark.parametrize("late", ["head", "gpu-002"])
def test_roll_waits_for_late_nodes(world: World, late: str) -> None:
    """A head that the same `up` has replaced, or a pool that grows: the scheduler may not even be there to be asked."""
    whole, world.cluster.roster = world.cluster.roster, world.cluster.without(late)
    world.cloud.late = {"gpu-001": "old"}
    world.joins = [lambda: None, lambda: setattr(world.cluster, "roster", whole)]
    assert world.roll(the_plan(2)) == {"gpu-001": "pass"}
    assert world.happened[:2] == ["play head", "renew gpu-001"]


def test_death_of_a_node_stops_the_roll(world: World) -> None:
    """This holds at any time of the roll."""
    world.cloud.late = {"gpu-001": "old"}
    world.joins = [lambda: setattr(world.cluster, "roster", world.cluster.without("gpu-002"))]
    with pytest.raises(RollStoppedError, match="gpu: 1 of 2 members after"):
        world.roll(the_plan(2))


def test_a_node_that_never_came_back_is_made_anew_first(world: World) -> None:
    """No step waits for it before, so that the head learns of it. It is proven before other nodes are renewed."""
    whole, world.cluster.roster = world.cluster.roster, world.cluster.without("gpu-002")
    world.cluster.nodes(node("gpu-001"), node("gpu-002", "DOWN", "DRAIN", reason=written(UNPROVEN)))
    renew = world.cloud.renew

    def back(*of: Any) -> None:
        renew(*of)
        world.cluster.roster = whole

    world.cloud.renew = back  # type: ignore[assignment, method-assign]
    assert world.roll(the_plan(2)) == {"gpu-001": "pass", "gpu-002": "pass"}
    assert [line for line in world.happened if line != "renew "] == [
        *("renew gpu-002", "play head", "play gpu-002", "prove gpu-002"),
        *("renew gpu-001", "play gpu-001", "prove gpu-001"),
    ]


def test_a_cloud_that_cannot_make_one_anew_stops_it(world: World) -> None:
    """The error lists finished and untouched nodes, and the way back; the node in work is neither."""

    def fail(_plan: Plan, _content: str, names: Collection[str], _progress: Any) -> None:
        if "gpu-002" in names:
            raise Cloud.Failure("the cloud: gpu-002 got no new disk\n  hint: look there")

    world.cloud.renew = fail  # type: ignore[method-assign]
    world.cloud.late["gpu-003"] = "old"
    third = dataclasses.replace(world.cluster.roster.members[2], name="gpu-003")
    world.cluster.roster = dataclasses.replace(world.cluster.roster, members=(*world.cluster.roster.members, third))
    world.cluster.nodes(*map(node, NAMES[:3]))
    with pytest.raises(RollStoppedError) as caught:
        world.roll(the_plan(3))
    assert str(caught.value) == (
        "the roll has stopped: the cloud: gpu-002 got no new disk\n"
        "  renewed: gpu-001\n"
        "  unchanged: gpu-003\n"
        "  hint: look there; to go back, undo the change and run pulumi up"
    )


def test_a_person_keeps_a_node_through_its_new_disk(world: World) -> None:
    """The node is renewed, and the user's drain stays."""
    mine = written(DrainReason("person", "alice", "fans"))
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason=mine), node("gpu-002"))
    del world.cloud.late["gpu-002"]
    world.roll(the_plan(2))
    assert "renew gpu-001" in world.happened
    assert "prove gpu-001" not in world.happened
    assert world.nodes()[0]["reason"] == mine


def test_too_many_out_of_service_stop_it(world: World) -> None:
    """Nodes, reasons and remedies are named."""
    world.cloud.late = {"gpu-002": "old"}
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="person alice: fans"), node("gpu-002"))
    with pytest.raises(RollStoppedError) as caught:
        world.roll(the_plan(2))
    assert str(caught.value).startswith(
        "the roll has stopped: the limit of nodes out of service at once is reached\n"
        "  gpu-001: drain: fans\n"
        "  unchanged: gpu-002\n"
        "  hint: return what users hold (stampworks return gpu-001), or renew them as well"
    )
    assert "prove gpu-001" not in world.happened


HELD = ["proof: rail1 is slow", "health: rail1 has no carrier", "stampworks: leaves the cluster"]


@pytest.mark.parametrize("reason", HELD)
def test_a_node_that_was_repaired_is_proven_before_it_counts(world: World, reason: str) -> None:
    """The proof of an `up` follows the roll, which would stop at a problem that the same `up` has repaired."""
    world.cloud.late, world.repaired = {"gpu-002": "old"}, {"gpu-001"}
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason=reason), node("gpu-002"))
    assert world.roll(the_plan(2)) == {"gpu-002": "pass"}
    assert world.happened == [
        *("play head", "play gpu-001", "prove gpu-001"),
        *("renew gpu-002", "play gpu-002", "prove gpu-002"),
    ]
    assert world.without[0] == ["gpu-002"], "other programs run on it"


@pytest.mark.parametrize("level", ["none", "quick"])
def test_a_node_that_was_started_again_is_proven_before_it_counts(world: World, level: str) -> None:
    """Slurm never returns it by itself. Without a proof it takes jobs again at once."""
    world.cloud.late, world.repaired = {"gpu-002": "old"}, {"gpu-001"}
    world.cluster.nodes(node("gpu-001", "DOWN", reason="Node unexpectedly rebooted"), node("gpu-002"))
    world.roll(the_plan(2, level))
    assert ("prove gpu-001" in world.happened) is (level == "quick")
    assert [each["state"] for each in world.nodes()] == [["IDLE"], ["IDLE"]]


def test_a_node_that_is_still_bad_stops_it(world: World) -> None:
    """It is proven once; the hint names a remedy."""
    world.cloud.late, world.repaired = {"gpu-002": "old"}, {"gpu-001"}
    world.verdicts["gpu-001"] = verdict("gpu-001", "fail", "rail1 is slow")
    world.cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="proof: rail1 is slow"), node("gpu-002"))
    with pytest.raises(RollStoppedError) as caught:
        world.roll(the_plan(2))
    assert str(caught.value) == (
        "the roll has stopped: the limit of nodes out of service at once is reached\n"
        "  gpu-001: drain: rail1 is slow\n"
        "  unchanged: gpu-002\n"
        "  hint: repair gpu-001, which pulumi up then proves and returns first, or renew them as well (stampworks roll "
        "NODE --reason TEXT), or allow more by roll.max_unavailable_percent; then run pulumi up"
    )
    assert world.happened.count("prove gpu-001") == 1


def test_nodes_that_join_at_the_same_time_count_for_nothing(world: World) -> None:
    """They were never in service; the playbook after the roll adds them to the cluster."""
    world.cloud.late = {"gpu-001": "old"}
    world.cluster.nodes(node("gpu-001"), node("gpu-002"))

    def play(_roster: Roster, hosts: Collection[str]) -> None:
        if "head" in hosts:  # Slurm learns of them with the head's new configuration
            new = [node(name, "UNKNOWN", "DRAIN", "NOT_RESPONDING", reason=written(UNPROVEN)) for name in NAMES[2:]]
            world.cluster.nodes(*world.nodes(), *new)

    world.play = play  # type: ignore[method-assign]
    others = [dataclasses.replace(world.cluster.roster.members[2], name=name) for name in NAMES[2:]]
    members = (*world.cluster.roster.members, *others)
    world.cluster.roster = dataclasses.replace(world.cluster.roster, members=members)
    assert world.roll(the_plan(8)) == {"gpu-001": "pass"}


def test_jobs_that_do_not_end_stop_it(world: World) -> None:
    """The node takes jobs again; with `requeue` the job is first asked to restart."""
    world.cluster.jobs([job(7, "alice", "gpu-001")])
    plan = the_plan(2, roll={"jobs": "requeue"})
    plan = dataclasses.replace(plan, scheduler=dataclasses.replace(plan.scheduler, drain_timeout_minutes=0))
    world.cloud.late = {"gpu-001": "old"}
    with pytest.raises(RollStoppedError) as caught:
        world.roll(plan)
    assert "the roll has stopped: gpu-001 did not become free within 0 minutes" in str(caught.value)
    assert "gpu-001: job 7 of alice" in str(caught.value)
    assert "scontrol requeue 7" in (world.cluster.folder / "slurm").read_text()
    assert [each["state"] for each in world.nodes()] == [["IDLE"], ["IDLE"]]


def test_a_person_can_name_nodes(world: World) -> None:
    """Existing nodes can be named, the head among them, whether or not the scheduler knows them."""
    world.cluster.nodes()
    condemn(the_plan(2), ["head", "gpu-001"], "alice says: fans")
    assert world.cloud.late["head"] == "alice says: fans"
    with pytest.raises(InputError, match="no node is called 'gpu-009'"):
        condemn(the_plan(2), ["gpu-009"], "alice says: fans")


def test_subject_does_not_depend_on_the_pace_of_a_roll() -> None:
    """A proof does not depend on the way in which nodes are renewed."""
    slow, fast = the_plan(roll={"max_unavailable_percent": 1}), the_plan(roll={"max_unavailable_percent": 100})
    assert subject_of(slow) == subject_of(fast)
