"""Derived values of plans, each with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stampworks.catalog import newest_release, releases
from stampworks.plan import Account, Extras, OwnCheck, OwnRole, Plan, Queue, Trunk, from_dict, to_dict
from stampworks.schedulers import topology

GPU = {"name": "gpu", "machine": "sim-h100", "count": 4}
SMALL = {"name": "small", "machine": "sim-a100-small", "count": 3}
PREP = {"name": "prep", "machine": "sim-cpu", "count": 2}


def reasons(plan: Plan) -> dict[str, str]:
    return {reason.path: reason.why for reason in plan.reasons}


def test_a_declaration_without_release_gets_the_newest(plan_of: Any) -> None:
    """The plan gives the reason."""
    plan = plan_of(pools=[GPU])
    assert plan.release.name == newest_release()
    assert reasons(plan)["release.name"] == "the newest of the catalog, the default"
    assert "release.name" not in reasons(plan_of(pools=[GPU], release="2026.11"))


@pytest.mark.parametrize("accounting", [False, True])
def test_the_database_is_only_there_for_accounting(plan_of: Any, accounting: bool) -> None:
    """Without accounting, the release has neither packages nor version of a database."""
    release = plan_of(pools=[GPU], scheduler={"accounting": accounting}).release
    assert ("database" in dict(release.packages)) is accounting
    assert ("mariadb" in dict(release.versions)) is accounting
    # nodes of a Kubernetes, nodes with shipped logs, and nodes with a directory have more
    everything = [
        role for role in releases()[release.name].packages if role not in ("kubernetes_node", "logs", "directory")
    ]
    assert [role for role, _ in release.packages] == [role for role in everything if accounting or role != "database"]


def test_all_other_clusters_of_a_release_share_an_image(plan_of: Any) -> None:
    """Declarations beside accounting do not change the installed software."""
    declared = [
        plan_of(pools=[GPU]),
        plan_of(pools=[PREP]),
        plan_of(pools=[GPU, SMALL], storage=[{"name": "shared", "kind": "directory", "mount": "/shared"}]),
    ]
    assert len({plan.release for plan in declared}) == 1


def test_pools_of_fewer_nics_take_the_first_rails(plan_of: Any) -> None:
    """The machine with the most NICs decides the number of rails; a rail has trunks only to leaves that use it."""
    plan = plan_of(pools=[SMALL, PREP, GPU], fabric={"leaf_nodes": 2, "rail_rate_mbps": 100})
    assert [rail.interface for rail in plan.fabric.rails] == ["rail0", "rail1"]
    assert [len(group.nodes[0].rail_addresses) for group in plan.groups] == [0, 1, 0, 2]
    assert [trunk.leaf for trunk in plan.fabric.rails[0].trunks] == ["leaf1-1", "leaf1-2", "leaf3-1", "leaf3-2"]
    assert [trunk.leaf for trunk in plan.fabric.rails[1].trunks] == ["leaf3-1", "leaf3-2"]
    assert reasons(plan)["fabric.rails"] == (
        "2: sim-h100 of pool gpu has that many NICs on the fabric, and no machine has more"
    )


def test_one_leaf_needs_no_spine(plan_of: Any) -> None:
    """Nor does it have a worst order of ranks."""
    plan = plan_of(pools=[GPU], fabric={"leaf_nodes": 4})
    assert all(rail.trunks == () for rail in plan.fabric.rails)
    assert reasons(plan)["fabric.trunks"] == "none: one leaf of a rail holds all nodes"
    assert not [each for each in plan.expectations if "worst_order" in each.name]


def test_a_trunk_is_sized_for_a_full_leaf_and_never_rounds_to_nothing(plan_of: Any) -> None:
    """The last leaf has a single node and the trunk of a full one."""
    plan = plan_of(pools=[SMALL], fabric={"leaf_nodes": 2, "rail_rate_mbps": 100, "oversubscription": 4})
    assert plan.fabric.rails[0].trunks == (Trunk("leaf1-1", 50), Trunk("leaf1-2", 50))
    thin = plan_of(pools=[SMALL], fabric={"leaf_nodes": 1, "rail_rate_mbps": 1, "oversubscription": 4})
    assert {trunk.rate_mbps for trunk in thin.fabric.rails[0].trunks} == {1}


def test_leaves_have_spines_of_their_own_where_that_is_declared(plan_of: Any) -> None:
    """Nodes for scheduling only have them, too; a spine has as much to its core as all its leaves have to it."""
    imagined = GPU | {"name": "more", "count": 9, "scheduling_only": True}
    plan = plan_of(pools=[SMALL, imagined], fabric={"leaf_nodes": 1, "spine_leaves": 2, "rail_rate_mbps": 100})
    [rail, *_] = plan.fabric.rails
    assert [(trunk.leaf, trunk.to) for trunk in rail.trunks] == [
        ("leaf1-1", "spine1-1"),
        ("leaf1-2", "spine1-1"),
        ("leaf1-3", "spine1-2"),
    ]
    assert rail.core_trunks == (Trunk("spine1-1", 200, "core"), Trunk("spine1-2", 200, "core"))
    placed = topology.of_plan(plan)
    assert placed.levels == ("spine", "leaf")
    assert {name: len(nodes) for name, nodes in placed.domains(0).items()} == {
        "spine1-1": 2,
        "spine1-2": 1,
        **{f"spine2-{number}": 2 for number in range(1, 5)},
        "spine2-5": 1,
    }
    assert "in runs of 2, each under a spine of its own" in reasons(plan)["fabric.spines"]


def test_one_spine_needs_no_core_and_is_a_level(plan_of: Any) -> None:
    """Growth then adds no level: otherwise a Kubernetes would replace its topology."""
    plan = plan_of(pools=[SMALL], fabric={"leaf_nodes": 1, "spine_leaves": 4})
    assert {(trunk.to, rail.core_trunks) for rail in plan.fabric.rails for trunk in rail.trunks} == {("spine1-1", ())}
    assert topology.of_plan(plan).levels == ("spine", "leaf")
    assert topology.of_plan(plan_of(pools=[SMALL], fabric={"leaf_nodes": 1})).levels == ("leaf",)


def test_a_cluster_without_rails_has_no_fabric_and_a_flat_topology(plan_of: Any) -> None:
    """Slurm gets no tree, and no expectation exists."""
    plan = plan_of(pools=[PREP], scheduler={"topology": "tree"})
    assert (plan.fabric.rails, plan.fabric.leaves, plan.expectations) == ((), (), ())
    assert plan.scheduler.topology == "flat"
    why = "flat: no node is known to have a rail, so that no tree can be described"
    assert reasons(plan)["scheduler.topology"] == why
    assert plan.network.management_cidr == plan.network.cidr


def test_one_node_has_nobody_to_talk_to(plan_of: Any) -> None:
    """A rail with a single node promises no collective."""
    assert plan_of(pools=[GPU | {"count": 1}]).expectations == ()


def test_without_queues_there_is_one(plan_of: Any) -> None:
    """The queue has all pools."""
    plan = plan_of(pools=[GPU, PREP])
    assert plan.scheduler.queues == (Queue("main", ("gpu", "prep"), True, 0, ""),)
    assert (
        reasons(plan)["scheduler.queues"] == "the default: one queue with all pools that run jobs, without a time limit"
    )


def test_accounts_list_their_users(plan_of: Any) -> None:
    """A user names accounts; the plan also lists users by account."""
    plan = plan_of(
        pools=[GPU],
        users=[{"name": "bob", "uid": 2002, "accounts": ["b", "a"]}, {"name": "alice", "uid": 2001, "accounts": ["a"]}],
        scheduler={"accounting": True, "accounts": [{"name": "a"}, {"name": "b", "share": 3, "accelerators_max": 8}]},
    )
    assert plan.scheduler.accounts == (Account("a", ("bob", "alice"), 1, 0), Account("b", ("bob",), 3, 8))


def test_preemption_that_nothing_asks_for_is_pointed_out(plan_of: Any) -> None:
    """Without a priority that preempts, preemption has no effect on Slurm, and the plan says so."""
    idle = plan_of(pools=[GPU], scheduler={"preemption": "requeue"})
    assert (
        reasons(idle)["scheduler.preemption"]
        == "requeue, but no priority preempts another, so that no job is preempted"
    )
    borrowing = plan_of(pools=[GPU], scheduler={"kind": "kubernetes", "preemption": "requeue"})
    assert reasons(borrowing)["scheduler.preemption"] == (
        "requeue, though no priority preempts another: teams that borrow make room for the owner and for teams "
        "with less of their share, however urgent"
    ), "Kueue takes back what is borrowed from any priority"
    priorities = [{"name": "low", "weight": 1}, {"name": "high", "weight": 9, "preempts": ["low"]}]
    used = plan_of(pools=[GPU], scheduler={"preemption": "requeue", "accounting": True, "priorities": priorities})
    assert "scheduler.preemption" not in reasons(used)
    assert "scheduler.preemption" not in reasons(plan_of(pools=[GPU]))


@pytest.mark.parametrize(("topology", "size"), [("flat", 0), ("tree", 0), ("block", 2)])
def test_a_leaf_is_a_block(plan_of: Any, topology: str, size: int) -> None:
    """This applies when blocks are declared."""
    plan = plan_of(pools=[GPU], scheduler={"topology": topology})
    assert (plan.scheduler.topology, plan.scheduler.block_nodes) == (topology, size)


def test_expectations_of_an_oversubscribed_pool(plan_of: Any) -> None:
    """Leaf order keeps a rail's rate, the worst order and the bisection lose by the oversubscription."""
    fabric = {"rail_rate_mbps": 400, "leaf_nodes": 4, "oversubscription": 4}
    plan = plan_of(pools=[GPU | {"count": 8}], fabric=fabric)
    assert {each.name: (each.value, each.unit) for each in plan.expectations} == {
        "rail0.allreduce_busbw_gbs_max": (0.04782, "GB/s"),
        "rail1.allreduce_busbw_gbs_max": (0.04782, "GB/s"),
        "rail0.worst_order.allreduce_busbw_gbs_max": (0.01196, "GB/s"),
        "rail1.worst_order.allreduce_busbw_gbs_max": (0.01196, "GB/s"),
        "gpu.allreduce_busbw_gbs_max": (0.09564, "GB/s"),
        "rail0.bisection_gbps": (0.4, "Gb/s"),
        "rail1.bisection_gbps": (0.4, "Gb/s"),
        "fabric.bisection_gbps": (0.8, "Gb/s"),
    }


def test_names_of_expectations_and_reasons_are_unique(plan_of: Any) -> None:
    """Each can be found by its name."""
    plan = plan_of(pools=[GPU, SMALL, PREP], scheduler={"accounting": True})
    for names in ([each.name for each in plan.expectations], [each.path for each in plan.reasons]):
        assert len(names) == len(set(names))


def test_nodes_for_scheduling_only_take_nothing(plan_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take no address, rail, leaf, place in the default queue, role or check of the user."""
    real = [{"name": "gpu", "machine": "sim-h100", "count": 4}]
    big = {"name": "big", "machine": "sim-h100", "count": 1000, "scheduling_only": True}
    without, plan = plan_of(pools=real), plan_of(pools=[*real, big], network={"cidr": "10.77.0.0/24"})
    (imagined,) = plan.scheduling_only
    assert (imagined.count, imagined.nodes[-1].name, imagined.nodes[-1].leaf) == (1000, "big-1000", "leaf2-500")
    assert {(node.address, node.rail_addresses) for node in imagined.nodes} == {("", ())}
    assert plan.fabric.leaves == without.fabric.leaves
    assert plan.expectations == without.expectations
    assert [(queue.name, queue.pools) for queue in plan.scheduler.queues] == [
        ("main", ("gpu",)),
        ("scheduling-only", ("big",)),
    ]
    monkeypatch.chdir(Path(__file__).parent / "own")
    extras = plan_of(
        pools=[*real, big], extras={"roles": [{"path": "motd"}], "checks": [{"path": "scratch.sh"}]}
    ).extras
    assert (extras.roles[0].groups, extras.checks[0].pools) == (("head", "gpu"), ("gpu",))
    assert "scheduling only" in next(reason.why for reason in plan.reasons if reason.path == "groups.big")


def test_own_roles_and_checks_go_everywhere_unless_said_otherwise(
    plan_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A role runs on every node, and a check on all nodes with jobs. Variables keep their types and are never
    templates."""
    monkeypatch.chdir(Path(__file__).parent / "own")
    roles = [
        {"path": "./motd/", "variables": {"motd_lines": [1, None, "{{ x }}"]}},
        {"path": "banner", "groups": ["prep", "head"]},
    ]
    checks = [{"path": "elsewhere/../scratch.sh"}, {"path": "quota.sh", "pools": ["prep"], "timeout_seconds": 3}]
    assert plan_of(pools=[GPU, PREP], extras={"roles": roles, "checks": checks}).extras == Extras(
        roles=(
            OwnRole("motd", "motd", ("head", "gpu", "prep"), '{"motd_lines": [1, null, "{{ x }}"]}'),
            OwnRole("banner", "banner", ("prep", "head"), "{}"),
        ),
        checks=(
            OwnCheck("scratch", "scratch.sh", ("gpu", "prep"), 10),
            OwnCheck("quota", "quota.sh", ("prep",), 3),
        ),
    )


@pytest.mark.parametrize(
    ("proof", "minutes"),
    [
        ({}, 10),
        ({"level": "burn-in"}, 240),
        ({"level": "burn-in", "budget_minutes": 30}, 30),
        ({"budget_minutes": 3}, 3),
    ],
)
def test_a_burn_in_has_hours(plan_of: Any, proof: Any, minutes: int) -> None:
    """Without a declared time, the plan has a reason."""
    plan = plan_of(pools=[GPU], proof=proof)
    assert plan.proof.budget_minutes == minutes
    assert ("proof.budget_minutes" in reasons(plan)) is (minutes == 240)


def test_a_layout_for_fewer_nodes(plan_of: Any) -> None:
    """A pool may have more nodes than a run can use: the plan states the usable number."""
    plan = plan_of(pools=[GPU | {"count": 5}], training={"layout": "tp", "tensor_parallel": 2})
    assert reasons(plan)["training.tensor_parallel"] == (
        "gpu: 5 nodes x 1 rank = 5 ranks; in groups of tensor_parallel 5 / 2 = 2.5, which is not whole: "
        "runs take 4 nodes of it at most"
    )


def test_dropped_values_are_unknown(plan_of: Any) -> None:
    """The engine drops nulls: an unknown fact comes back as a missing one."""

    def without_nulls(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_nulls(each) for key, each in value.items() if each is not None}
        return [without_nulls(each) for each in value] if isinstance(value, (list, tuple)) else value

    plan = plan_of(pools=[{"name": "gpu", "machine": "sim-h100", "count": 4}])
    assert plan.training.model.parameters is None
    assert from_dict(Plan, without_nulls(to_dict(plan))) == plan
