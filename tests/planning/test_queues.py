"""Declared settings that Kubernetes cannot follow are refused before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning.rules.findings import Finding
from stampworks.planning.rules.queues import queues

POOL = {"name": "gpu", "machine": "sim-h100", "count": 16, "scheduling_only": True}
LEVELS = ("low", "high")
PRIORITIES = [{"name": "low", "weight": 1}, {"name": "high", "weight": 2, "preempts": ["low"]}]


def planned(pools: Sequence[dict[str, Any]] = (POOL,), **scheduler: Any) -> Plan:
    declared = {"version": 1, "name": "test", "cloud": "local", "pools": list(pools)}
    return planning.plan(load_value({**declared, "scheduler": {"kind": "kubernetes", **scheduler}}, "test"))


def found(**scheduler: Any) -> list[Finding]:
    return queues_of(planned(**scheduler))


def queues_of(plan: Plan) -> list[Finding]:
    return [one for one in queues(plan) if one.verdict != "pass"]


@pytest.mark.parametrize(
    ("scheduler", "id_", "place", "text", "hint"),
    [
        (
            {"preemption": "cancel", "priorities": PRIORITIES},
            "kueue.preemption",
            "scheduler.preemption",
            "Kueue does not cancel a preempted job: it suspends it, and the job starts again when there is room",
            "write preemption: requeue, or off",
        ),
        (
            {"accounting": True},
            "kueue.accounting",
            "scheduler.accounting",
            "the usage of users is recorded by Slurm's database, and nothing records it on Kubernetes",
            "take it out: accounts have their shares and limits without it",
        ),
        (
            {"queues": [{"name": "main", "pools": ["gpu"], "default": True, "time_limit_minutes": 30}]},
            "kueue.time-limit",
            "scheduler.queues[0].time_limit_minutes",
            "queue main has a time limit, which a queue of Kueue cannot enforce",
            'take it out; a job can limit its own by the label kueue.x-k8s.io/max-exec-time-seconds: "1800"',
        ),
        (
            {"preemption": "requeue", "priorities": [*PRIORITIES, {"name": "top", "weight": 3, "preempts": ["low"]}]},
            "kueue.preempts",
            "scheduler.priorities[2]",
            "top would preempt high, too: in Kueue any higher weight preempts",
            "write preempts: [low, high], give them the same weight, or write preemption: off",
        ),
        (
            {
                "accounts": [{"name": "vision"}, {"name": "vision-prod"}],
                "queues": [{"name": "gpu", "pools": ["gpu"], "default": True}, {"name": "prod-gpu", "pools": ["gpu"]}],
            },
            "kueue.names",
            "scheduler.accounts[1].name",
            "queue gpu of account vision-prod would be vision-prod-gpu in Kubernetes, a name that queue prod-gpu of "
            "account vision has already",
            "take another name",
        ),
        (
            {"accounts": [{"name": "kube-system"}]},
            "kueue.namespace",
            "scheduler.accounts[0].name",
            "an account is a namespace, and kube-system belongs to Kubernetes itself",
            "take another name, for example team-kube-system",
        ),
        (
            {"accounts": [{"name": "research", "accelerators_max": 4}]},
            "kueue.quota",
            "scheduler.accounts[0].accelerators_max",
            "4 is less than the 8 accelerators of one node of queue main: no gang would start there",
            "write 8 or more, or 0 for no limit",
        ),
    ],
)
def test_refuses_unsupported_settings_of_kueue(
    scheduler: dict[str, Any], id_: str, place: str, text: str, hint: str
) -> None:
    assert found(**scheduler) == [Finding(id_, "fail", text, hint, place, subject=found(**scheduler)[0].subject)]


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("default", "Kubernetes itself"),
        ("stampworks-proof", "proofs"),
        ("mount-s3", "the driver of buckets"),
        ("gpu-operator", "the add-on gpu-operator"),
        ("kubeflow-system", "the add-on trainer"),
        ("kueue-system", "the add-on kueue"),
    ],
)
def test_a_team_has_no_namespace_of_others(name: str, whose: str) -> None:
    """Namespaces of disabled add-ons are refused as well."""
    [one] = found(accounts=[{"name": name}])
    assert (one.id, one.text) == ("kueue.namespace", f"an account is a namespace, and {name} belongs to {whose}")


SMALL = {**POOL, "name": "small", "machine": "sim-a100-small"}
TWO_QUEUES: list[dict[str, Any]] = [
    {"name": "big", "pools": ["gpu"], "default": True},
    {"name": "little", "pools": ["small"]},
]


def limited(most: int, queues: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    plan = planned([POOL, SMALL], accounts=[{"name": "a", "accelerators_max": most}], queues=queues)
    return [(one.id, one.severity, one.text) for one in queues_of(plan)]


def test_a_limit_is_compared_with_the_nodes_of_each_queue() -> None:
    """A queue without room is a warning if the team has gangs in another queue."""
    both = ("kueue.limit", "warning", "Kueue counts it in each pool: of gpu and small a may have 2 x {}")
    text = "{} is less than the {} accelerators of one node of queue {}: no gang would start there"
    assert limited(4, TWO_QUEUES) == [
        ("kueue.quota", "warning", text.format(4, 8, "big")),
        (*both[:2], both[2].format(4)),
    ]
    assert limited(1, TWO_QUEUES) == [
        ("kueue.quota", "error", text.format(1, 8, "big")),
        ("kueue.quota", "error", text.format(1, 2, "little")),
        (*both[:2], both[2].format(1)),
    ]
    together = [{"name": "main", "pools": ["gpu", "small"], "default": True}]
    assert limited(2, together) == [(*both[:2], both[2].format(2))]


@pytest.mark.parametrize(("preemption", "waits"), [("off", "preemption is off"), ("requeue", "they take it back")])
def test_a_team_without_a_node_of_its_own_is_told_so(preemption: str, waits: str) -> None:
    """The message names the share that would give it a node."""
    accounts = [{"name": "a", "share": 1000}, {"name": "b", "share": 1}]
    [one] = found(preemption=preemption, priorities=PRIORITIES, accounts=accounts)
    text = f"no node of queue main is b's own: it has what others leave idle, and {waits}"
    assert one == Finding(
        "kueue.share", "fail", text, "write 67 or more, or less for the others", "scheduler.accounts[1].share",
        "warning", "b",
    )  # fmt: skip
    assert not found(preemption=preemption, priorities=PRIORITIES, accounts=[accounts[0], {"name": "b", "share": 67}])


def test_one_node_is_one_teams() -> None:
    plan = planned([{**POOL, "count": 1}], accounts=[{"name": "a"}, {"name": "b"}])
    assert [(one.id, one.hint) for one in queues_of(plan)] == [("kueue.share", "declare more nodes")]


def test_supported_settings_of_kueue_pass() -> None:
    """This includes priorities that spare each other without preemption."""
    spared = [{"name": "low", "weight": 1}, {"name": "high", "weight": 2}]
    assert not found(preemption="off", priorities=spared, accounts=[{"name": "a"}, {"name": "b"}])
    assert not found(preemption="requeue", priorities=PRIORITIES)


def test_a_queue_s_priority_is_not_promised_to_jobs_that_others_make() -> None:
    """Queues without a priority have no finding."""
    of = {"pools": ["gpu"]}
    declared = [{"name": "main", **of, "default": True}, *({"name": each, **of, "priority": each} for each in LEVELS)]
    _, one = queues(planned(queues=declared, priorities=PRIORITIES))
    assert one == Finding(
        "kueue.priority",
        "pass",
        "`stampworks submit` gives its jobs the priority of their queue (low: low, high: high), and no queue of "
        "Kueue does: other jobs name a priority by the label kueue.x-k8s.io/priority-class",
        "",
        "scheduler.queues",
    )
    assert [each.id for each in queues(planned(priorities=PRIORITIES))] == ["kueue.queues"]


def test_slurm_is_none_of_its_business() -> None:
    declared = {"version": 1, "name": "test", "cloud": "local", "pools": [{**POOL, "scheduling_only": False}]}
    plan = planning.plan(load_value({**declared, "scheduler": {"preemption": "cancel"}}, "test"))
    assert not list(queues(plan))


def test_simulated_nodes_alone_make_a_cluster() -> None:
    """Pods only seem to run; the default queue has these nodes."""
    (queue,) = planned().scheduler.queues
    assert (queue.name, queue.pools, queue.default) == ("main", ("gpu",), True)


def test_blocks_of_nodes_for_scheduling_only_are_none_of_a_cloud_s() -> None:
    """Without other nodes, their own topology is checked."""
    pools = [{"name": "gpu", "machine": "p4d", "count": 2, "scheduling_only": True}]
    scheduler = {"kind": "kubernetes", "topology": "block"}
    declared = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools}
    with pytest.raises(DeclarationError, match="a block is a leaf or an NVLink fabric of several nodes"):
        planning.plan(load_value({**declared, "scheduler": scheduler}, "test"))
