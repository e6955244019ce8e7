"""Output of `status`: the plan, the roster and Slurm side by side, with unknown for missing answers."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from stampworks import plan
from stampworks.cli.status import text
from stampworks.clouds.local import members as local
from stampworks.operations import InputError, members
from stampworks.operations.slurm.status import Status, status
from stampworks.operations.status import ending_sentence

from tests.operations.slurm.standin import StandIn, job, node

MACHINE = plan.Machine("sim-h100", True, "h100", 8, 80, 16, 1, 2000)


def group(name: str, role: plan.Role, count: int, nodes: tuple[plan.Node, ...]) -> plan.Group:
    rails = len(nodes[0].rail_addresses) if nodes else 0
    return plan.Group(name, role, MACHINE, count, count, nodes, (), rails, purchase="owned", zone="", reservation="")


def directory(mount: object) -> plan.Storage:
    nothing = ("", 0, 0, 0, 0, 0)
    return plan.Storage("shared", "directory", *nothing, efa=False, features=(), mount=str(mount), protect=False)


def the_plan(count: int = 2, named: bool = True) -> plan.Plan:
    nodes = tuple(plan.Node(f"gpu-00{i}", f"10.77.1.{i}", ("10.77.64.1",), "leaf1") for i in range(1, count + 1))
    head = group("head", "controller", 1, (plan.Node("head", "10.77.0.2", (), ""),))
    return plan.Plan(
        version=1,
        name="local",
        cloud="local",
        region="",
        release=plan.Release("2026.11", "trixie", (), (), ()),
        network=plan.Network("10.77.0.0/16", "10.77.0.0/20", "10.77.0.1", ()),
        fabric=plan.Fabric("simulated", 1, 2, (), ()),
        groups=(head, group("gpu", "worker", count, nodes if named else ())),
        storage=(),
        scheduler=plan.Scheduler("slurm", False, "off", "flat", 0, 10, 10, False, "/state", (), (), ()),
        users=(),
        tags=(),
        budget=plan.Budget(0, ()),
        logs=plan.Logs(0),
        extras=plan.Extras((), ()),
        proof=plan.Proof("none", 1, 0),
        roll=plan.Roll((("gpu", 1),), "wait"),
        training=plan.Training(
            *("fsdp", 1, "auto", 100, 16),
            tracker=plan.Tracker("files", "", "stampworks"),
            checkpoints=plan.Checkpoints("", 3),
            node_ranks=0,
            ranks=(("gpu", 1),),
            peak_tflops=(),
            model=plan.Model(*(None,) * 14, True, False, *(None,) * 5),
        ),
        expectations=(),
        reasons=(),
    )


def with_login(of: plan.Plan) -> plan.Plan:
    login = group("login", "login", 1, (plan.Node("login-001", "10.77.0.3", (), ""),))
    return dataclasses.replace(of, groups=(*of.groups, login))


def states(found: Status) -> dict[str, tuple[str, str]]:
    return {row.name: (row.state, row.verdict) for row in found.nodes}


def test_a_healthy_cluster(cluster: StandIn) -> None:
    """Every planned node exists and takes jobs: the verdict is pass, with jobs and GPUs in the status."""
    cluster.nodes(node("gpu-001", "MIXED", gres_used="gpu:h100:2(IDX:0-1)"), node("gpu-002"))
    cluster.jobs([job(7, "alice", "gpu-001")])
    found = status(the_plan(), cluster.roster)
    assert (found.cluster, found.verdict, found.why) == ("local", "pass", ())
    assert states(found) == {"head": ("up", "pass"), "gpu-001": ("mixed", "pass"), "gpu-002": ("idle", "pass")}
    row = found.nodes[1]
    assert (row.pool, row.address, row.jobs, row.gpus_allocated, row.gpus, row.rails) == (
        *("gpu", "10.77.1.1", (7,)),
        *(2, 8, 2),
    )


@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (("IDLE",), "pass"),
        (("ALLOCATED", "COMPLETING"), "pass"),
        (("IDLE", "DRAIN"), "fail"),
        (("DOWN", "NOT_RESPONDING"), "fail"),
        (("IDLE", "INVALID_REG"), "fail"),
        (("SOMETHING_NEW",), "fail"),
        ((), "unknown"),
    ],
)
def test_only_known_good_states_pass(cluster: StandIn, flags: tuple[str, ...], verdict: str) -> None:
    """An unrecognized state is not good; a missing state is unknown."""
    cluster.nodes(node("gpu-001") | {"state": list(flags)}, node("gpu-002"))
    found = status(the_plan(), cluster.roster)
    assert found.verdict == verdict
    assert states(found)["gpu-001"] == ("+".join(flags).lower() or "unknown", verdict)


def test_a_bad_node_says_why(cluster: StandIn) -> None:
    """Slurm's reason is in the row and in the sentence."""
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="xid 79"), node("gpu-002"))
    assert status(the_plan(), cluster.roster).why == ("gpu-001: idle+drain, held by Slurm: xid 79",)


@pytest.mark.parametrize(
    ("line", "held"),
    [
        ("person alice: new fans", "held by alice since 2024-11-21T12:00:00Z: new fans"),
        ("health: rail0 is missing", "held by the health check since 2024-11-21T12:00:00Z: rail0 is missing"),
        ("stampworks: gets a new disk", "held by an up since 2024-11-21T12:00:00Z: gets a new disk"),
        (
            "cloud: spot instance: stop at noon",
            "held by its cloud since 2024-11-21T12:00:00Z: spot instance: stop at noon",
        ),
        ("Kill task failed", "held by Slurm (root) since 2024-11-21T12:00:00Z: Kill task failed"),
    ],
)
def test_a_drained_node_says_by_whom_since_when_and_why(cluster: StandIn, line: str, held: str) -> None:
    """The drain has author, time and reason. A node that takes jobs shows none, although Slurm keeps the last one."""
    told = {"reason": line, "reason_set_by_user": "root", "reason_changed_at": {"set": True, "number": 1732190400}}
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", **told), node("gpu-002", **told))
    found = status(the_plan(), cluster.roster)
    assert found.why == (f"gpu-001: idle+drain, {held}",)
    assert found.nodes[2].reason is None


def test_a_login_node_is_up_or_missing(cluster: StandIn) -> None:
    """Slurm does not know login nodes, which is correct."""
    cluster.nodes(node("gpu-001"), node("gpu-002"))
    found = status(with_login(the_plan()), cluster.roster)
    assert (found.verdict, found.why) == ("fail", ("login-001: missing",))
    login = dataclasses.replace(cluster.roster.members[0], name="login-001", group="login")
    found = status(
        with_login(the_plan()), dataclasses.replace(cluster.roster, members=(*cluster.roster.members, login))
    )
    assert found.verdict == "pass"
    assert states(found)["login-001"] == ("up", "pass")


def test_a_planned_node_that_is_not_there_is_missing(cluster: StandIn) -> None:
    """A dead node is in the plan and not in the roster."""
    found = status(the_plan(), cluster.without("gpu-002"))
    assert found.verdict == "fail"
    assert found.why == ("gpu-002: missing",)
    assert [row.name for row in found.nodes] == ["head", "gpu-001", "gpu-002"]


def test_a_missing_node_that_was_drained_says_so(cluster: StandIn) -> None:
    """The drained node will take no jobs when it returns."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "DOWN", "DRAIN", reason="person alice: new fans"))
    found = status(the_plan(), cluster.without("gpu-002"))
    assert found.why == ("gpu-002: missing, held by alice: new fans",)


def test_members_without_planned_names_are_counted(cluster: StandIn) -> None:
    """A cloud that names its nodes itself: too few is still a failure."""
    found = status(the_plan(count=3, named=False), cluster.roster)
    assert (found.verdict, found.why) == ("fail", ("gpu: 2 of 3 nodes",))


def test_a_node_that_slurm_does_not_know_fails(cluster: StandIn) -> None:
    """The node is in the roster and takes no jobs."""
    cluster.nodes(node("gpu-001"))
    found = status(the_plan(), cluster.roster)
    assert found.why == ("gpu-002: not in Slurm",)


def test_a_silent_slurm_is_unknown_everywhere(cluster: StandIn) -> None:
    """While the head is silent, states are unknown; missing nodes are still named."""
    cluster.unreachable()
    found = status(the_plan(), cluster.without("gpu-002"))
    assert found.verdict == "unknown"
    assert found.why == (
        "head cannot be reached: ssh: connect to host 10.77.0.2 port 22: Connection refused",
        "gpu-002: missing",
    )
    assert states(found) == {
        "head": ("unknown", "unknown"),
        "gpu-001": ("unknown", "unknown"),
        "gpu-002": ("missing", "fail"),
    }
    assert found.nodes[1].gpus is None


@pytest.mark.parametrize("answer", ["", "{", '{"nodes": 3}', "\x1b[31mowned"])
def test_broken_answers_are_unknown(cluster: StandIn, answer: str) -> None:
    """Unreadable output never looks like a healthy cluster."""
    (cluster.folder / "nodes.json").write_text(answer)
    found = status(the_plan(), cluster.roster)
    assert found.verdict == "unknown"
    assert "\x1b" not in "".join(found.why)


def test_a_cluster_without_a_head_is_unknown(cluster: StandIn) -> None:
    """Without a controller there is no answer."""
    found = status(the_plan(), cluster.without("head"))
    assert found.verdict == "unknown"
    assert found.why[0] == "cluster local has no controller: no node of the group 'head' is running"


def test_status_can_be_written_down(cluster: StandIn) -> None:
    """The whole of it is plain data."""
    assert dataclasses.asdict(status(the_plan(), cluster.roster))["nodes"][0]["name"] == "head"


def test_an_unknown_cloud_is_told_which_there_are() -> None:
    """A cloud without a module `members` is an error that lists the clouds."""
    with pytest.raises(InputError, match=r"^no cloud is called 'loca'\n  hint: did you mean local\?$"):
        members("loca", "x", "")


def test_nodes_for_scheduling_only_are_not_missing(cluster: StandIn) -> None:
    """Such pools are listed in one line, and do not change the verdict."""
    cluster.nodes(node("gpu-001"), node("gpu-002"))
    made = the_plan()
    imagined = group("big", "scheduling only", 2, (plan.Node("big-001", "", (), ""),) * 2)
    found = status(dataclasses.replace(made, groups=(*made.groups, imagined)), cluster.roster)
    assert (found.verdict, found.why) == ("pass", ())
    assert found.scheduling_only == ("big: 2 nodes for scheduling only, which run no jobs",)
    assert "big" not in {row.pool for row in found.nodes}


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-12-01T11:30Z", "gpu: its nodes go with cr-1, which ends at 2026-12-01T11:30Z, in 9 days"),
        ("2026-11-24T11:30Z", "warning: gpu: its nodes go with cr-1, which ends at 2026-11-24T11:30Z, in 2 days"),
        (
            "2026-11-22T13:30Z",
            "warning: gpu: its nodes go with cr-1, which ends at 2026-11-22T13:30Z, in 2 hours",
        ),
        ("2026-11-22T11:30Z", "warning: gpu: its nodes go with cr-1, which ended at 2026-11-22T11:30Z"),
        ("", "warning: gpu: its nodes go with cr-1, and when that ends is unknown: not permitted"),
    ],
)
def test_when_capacity_ends(at: str, said: str) -> None:
    """The end is always shown, with a warning if it is near, over or unknown."""
    now = datetime(2026, 11, 22, 11, 30, tzinfo=UTC)
    ending = plan.Ending("gpu", "cr-1", at, "" if at else "not permitted")
    assert ending_sentence(ending, now).removesuffix(": save the state of running jobs") == said


def test_endings_do_not_change_the_verdict(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes are healthy as before; endings are shown below them."""
    ending = plan.Ending("gpu", "cr-1", "", "not permitted")
    monkeypatch.setattr(local, "endings", lambda *_: (ending,))
    cluster.nodes(node("gpu-001"), node("gpu-002"))
    cluster.jobs([])
    found = status(the_plan(), cluster.roster)
    assert (found.verdict, found.endings) == ("pass", (ending,))
    assert text(found)[-1].startswith("warning: gpu: its nodes go with cr-1")
