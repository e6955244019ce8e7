"""Login nodes: users submit jobs there, apart from the head."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.changes.review import Review
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.cost import cost

LOCAL = {"cloud": "local", "pools": [{"name": "gpu", "machine": "sim-h100", "count": 2}]}
AWS = {
    "cloud": "aws",
    "region": "us-east-1",
    "pools": [{"name": "gpu", "machine": "g6-8xlarge", "count": 1, "zone": "us-east-1a"}],
}


def plan(declared: dict[str, Any], count: int, **scheduler: Any) -> Plan:
    more = {"scheduler": {"login_nodes": count, **scheduler}}
    return planning.plan(load_value({"version": 1, "name": "test", **declared, **more}, "test"))


def problem(declared: dict[str, Any]) -> str:
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value({"version": 1, "name": "test", **declared}, "test"))
    return str(error.value)


def test_they_move_nobody() -> None:
    """The plan without them is unchanged; with them, all other addresses stay."""
    none, some = plan(LOCAL, 0), plan(LOCAL, 2)
    assert none == planning.plan(load_value({"version": 1, "name": "test", **LOCAL}, "test"))
    assert [group.name for group in none.groups] == ["head", "gpu"]
    assert some.groups[:2] == none.groups
    login = some.groups[2]
    assert [(node.name, node.address) for node in login.nodes] == [
        ("login-001", "10.77.0.3"),
        ("login-002", "10.77.0.4"),
    ]


def test_they_run_no_jobs_and_hold_no_state() -> None:
    """Parts that ask for pools do not see them."""
    some = plan(LOCAL, 1)
    assert [group.name for group in some.pools] == ["gpu"]
    assert [queue.pools for queue in some.scheduler.queues] == [("gpu",)]
    assert some.groups[2].volumes == ()
    assert some.groups[2].machine == some.controller.machine


def test_a_cloud_starts_them_where_the_head_is() -> None:
    """Login nodes have names, addresses and a price, and no placement group."""
    none, some = plan(AWS, 0, accounting=True), plan(AWS, 2, accounting=True)
    login = some.groups[2]
    assert [node.name for node in login.nodes] == ["login-001", "login-002"]
    assert login.zone == some.controller.zone == "us-east-1a"
    assert login.launch == some.controller.launch
    assert login.launch
    assert not login.launch.placed_together
    needed = [{each.name: each.needed for each in one.network.subnets}["nodes"] for one in (none, some)]
    assert [each for each in needed if each is not None] == [2, 4]
    charge = next(each for each in cost(some).charges if each.what == "login")
    head = next(each for each in cost(some).charges if each.what == "head")
    assert head.usd_per_hour
    assert charge.usd_per_hour == round(2 * head.usd_per_hour, 6)


def test_a_pool_cannot_have_their_name() -> None:
    """The group exists or may be created."""
    assert problem({**LOCAL, "pools": [{"name": "login", "machine": "sim-cpu", "count": 1}]}) == (
        "test: pools[0].name: 'login' is the name of the login nodes\n"
        "  hint: write scheduler: {login_nodes: 1} for some, or name the pool after the use of its nodes\n"
        "\n"
        "1 problem in test: nothing was changed."
    )


def test_kubernetes_has_none() -> None:
    """Login nodes have programs for Slurm."""
    assert problem({**LOCAL, "scheduler": {"kind": "kubernetes", "login_nodes": 1}}) == (
        "test: scheduler.login_nodes: login nodes are for Slurm: users reach Kubernetes from their own machines\n"
        "  hint: take it out, or write kind: slurm\n"
        "\n"
        "1 problem in test: nothing was changed."
    )


def test_a_role_of_the_users_own_is_for_them_where_there_are_some() -> None:
    """Without login nodes their group does not exist."""
    own = {"extras": {"roles": [{"path": "roles/x", "groups": ["login"]}]}}
    assert "extras.roles[0].groups[0]: no group is called 'login'" in problem({**LOCAL, **own})
    assert "no group" not in problem({**LOCAL, **own, "scheduler": {"login_nodes": 1}})


def reviewed(a: Plan | None, b: Plan | None) -> Review:
    return review("test", ReviewedStack("a", a), ReviewedStack("b", b))


def test_one_more_is_a_change_of_their_number() -> None:
    """A single node starts."""
    found = reviewed(plan(LOCAL, 1), plan(LOCAL, 2))
    assert [(each.written, each.policy, each.restarts) for each in found.changes] == [
        ("scheduler.login_nodes", "in place", 0)
    ]
    assert [(each.group, each.names) for each in found.join] == [("login", ("login-002",))]
    assert ("nodes", "login-002 starts") in [(each.stage, each.text) for each in found.order]


def test_they_come_and_go_without_a_word_of_jobs() -> None:
    """Logged-in users should know."""
    there, gone = reviewed(plan(LOCAL, 0), plan(LOCAL, 1)), reviewed(plan(LOCAL, 1), plan(LOCAL, 0))
    for found in (there, gone):
        assert [(each.written, each.policy) for each in found.changes] == [("scheduler.login_nodes", "in place")]
    assert [each.text for each in gone.order] == [
        "login-001 goes: users there are logged out",
        "all nodes are configured; jobs go on",
        "changed nodes are measured: level standard, at most 10 min",
        "the group of login nodes",
    ]


def test_a_whole_stack_names_what_declares_them() -> None:
    """The declared number is shown as part of the plan."""
    assert "scheduler.login_nodes" in [each.written for each in reviewed(None, plan(LOCAL, 1)).changes]
