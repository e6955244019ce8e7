"""Differences between two plans, in words."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from stampworks.changes.differences import differences
from stampworks.plan import Plan, fingerprint, from_dict, to_dict
from stampworks.views.comparison import ComparedSide, comparison_data, comparison_text, sentences, shown, verdict

from tests.planning.test_fingerprint import IDENTITY, ON_KUBERNETES, OTHERS, PLAN, changed, mutations, planned

LUSTRE = {"name": "s", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "capacity": 4800, "mount": "/s"}
TIERING = {
    "name": "s",
    "kind": "fsx-lustre",
    "tier": "PERSISTENT_2 INTELLIGENT_TIERING",
    "metadata_iops": 6000,
    "mount": "/s",
}


def of(path: str, value: Any) -> Plan:
    return planned(changed(path, value))


def counted(a: Plan, b: Plan) -> list[str]:
    found = [each for each in differences(a, b) if each.kind == "difference" and not each.follows]
    return sentences(found, "a", "b")


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (
            {**LUSTRE, "mbps_per_tib": 250},
            {**LUSTRE, "mbps_per_tib": 500},
            "storage s throughput per TiB: 250 MB/s in a, 500 MB/s in b",
        ),
        (
            {**TIERING, "throughput_mbps": 4000, "read_cache_gib": 64},
            {**TIERING, "throughput_mbps": 8000, "read_cache_gib": 64},
            "storage s throughput: 4000 MB/s in a, 8000 MB/s in b",
        ),
    ],
)
def test_storage_is_as_fast_as_its_bytes(one: dict[str, Any], other: dict[str, Any], said: str) -> None:
    """Throughput of storage is in bytes, and the rate of a link in bits."""
    pools = [{"name": "gpu", "machine": "p5", "count": 2}]
    on_aws = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools}
    a, b = (planned({**on_aws, "storage": [it]}) for it in (one, other))
    assert said in counted(a, b)


def test_lists_in_lists_are_words() -> None:
    """Roles with their packages are shown without Python's brackets."""
    packages = (("base", ()), ("fabric", ("ethtool", "iperf3")), ("slurm", ("slurmd",)))
    assert shown(packages, "packages", "") == "base, fabric ethtool iperf3, slurm slurmd"
    assert shown((), "packages", "") == "none"


def test_addresses_on_rails() -> None:
    """Many addresses are a range, and addresses that the cloud chooses a number: a list of empty texts says nothing."""
    assert shown(("10.1.0.1", "10.1.1.1"), "rail_addresses", "") == "10.1.0.1, 10.1.1.1"
    assert shown(tuple(f"10.1.{rail}.1" for rail in range(8)), "rail_addresses", "") == "10.1.0.1 to 10.1.7.1, 8 rails"
    assert shown(("",) * 32, "rail_addresses", "") == "32 that the cloud chooses"
    assert shown((), "rail_addresses", "") == "none"


WORDS = {
    "pools[].name": ["pool gpu: only in a, 4 x sim-h100", "pool train: only in b, 4 x sim-h100"],
    "pools[].machine": ["pool gpu machine: sim-h100 in a, sim-a100-small in b", "rail1: only in a"],
    "pools[].count": ["pool gpu: 4 nodes in a, 5 in b"],
    "pools[].scheduling_only": ["pool gpu role: worker in a, scheduling only in b"],
    "fabric.rail_rate_mbps": ["rail[0-1] rate: 200 Mb/s in a, 400 Mb/s in b"],
    "fabric.leaf_nodes": ["fabric leaf nodes: 2 in a, 4 in b"],
    "fabric.spine_leaves": ["fabric spine leaves: 0 in a, 1 in b"],
    "fabric.oversubscription": ["fabric oversubscription: 1 in a, 2 in b"],
    "storage[].name": ["storage shared: only in a, directory at /shared"],
    "storage[].mount": ["storage shared mount: /shared in a, /data in b"],
    "storage[].protect": ["storage shared protect: yes in a, no in b"],
    "storage[].homes": ["storage shared homes: no in a, yes in b"],
    "users[].name": ["user alice: only in a, uid 2001 of research", "user carol: only in b, uid 2001 of research"],
    "users[].uid": ["user alice uid: 2001 in a, 2003 in b"],
    "users[].accounts": [
        "account research users: alice in a, none in b",
        "account product users: none in a, alice in b",
        "user alice accounts: research in a, product in b",
    ],
    "users[].groups": ["user alice groups: nlp in a, vision in b"],
    "users[].keys": [
        f"user alice keys: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43} alice@laptop in a, "
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'B' * 43} in b"
    ],
    "groups[].name": ["team nlp: only in a, gid 3001", "team team: only in b, gid 3001"],
    "groups[].gid": ["team nlp gid: 3001 in a, 3003 in b"],
    "scheduler.kind": ["scheduler kind: slurm in a, kubernetes in b"],
    "scheduler.accounting": ["scheduler accounting: yes in a, no in b", "account research, product: only in a"],
    "scheduler.topology": ["scheduler topology: tree in a, flat in b"],
    "scheduler.preemption": ["scheduler preemption: requeue in a, cancel in b"],
    "scheduler.drain_timeout_minutes": ["scheduler drain timeout: 10 min in a, 20 min in b"],
    "scheduler.login_nodes": ["group login: only in b, 1 x sim-cpu"],
    "scheduler.protect": ["scheduler protect: yes in a, no in b"],
    "scheduler.queues[].name": ["queue all: only in b, of gpu, cpu, by default"],
    "scheduler.queues[].pools": ["queue main pools: gpu, cpu in a, gpu in b"],
    "scheduler.queues[].default": ["queue main default: yes in a, no in b", "queue short default: no in a, yes in b"],
    "scheduler.queues[].time_limit_minutes": ["queue main time limit: no limit in a, 60 min in b"],
    "scheduler.queues[].priority": ["queue main priority: normal in a, urgent in b"],
    "scheduler.priorities[].name": ["priority normal: only in a"],
    "scheduler.priorities[].weight": ["priority normal weight: 100 in a, 101 in b"],
    "scheduler.priorities[].preempts": ["priority urgent preempts: normal in a, none in b"],
    "scheduler.accounts[].name": ["account research: only in a", "account science: only in b"],
    "scheduler.accounts[].share": ["account research share: 1 in a, 2 in b"],
    "scheduler.accounts[].accelerators_max": ["account research accelerators max: no limit in a, 8 in b"],
    "proof.level": ["proof level: standard in a, quick in b"],
    "proof.budget_minutes": ["proof budget: 10 min in a, 20 min in b"],
    "proof.failed_nodes_max": ["proof failed nodes max: 0 in a, 1 in b"],
    "roll.max_unavailable_percent": [],
    "roll.jobs": ["roll jobs: wait in a, requeue in b"],
    "training.layout": ["training layout: tp in a, ddp in b"],
    "training.tensor_parallel": ["training tensor parallel: 1 in a, 2 in b"],
    "training.ranks": ["training node ranks: 2 in a, 4 in b"],
    "training.steps": ["training steps: 100 in a, 200 in b"],
    "training.batch": ["training batch: 16 in a, 32 in b"],
    "training.tracker.kind": ["training tracker kind: wandb in a, mlflow in b"],
    "training.tracker.url": ["training tracker url: http://10.0.0.5:5000 in a, http://10.0.0.5:6000 in b"],
    "training.tracker.experiment": ["training tracker experiment: demo in a, other in b"],
    "training.checkpoints.directory": ["training checkpoints directory: /shared/checkpoints in a, /shared/other in b"],
    "training.checkpoints.keep": ["training checkpoints keep: 3 in a, 5 in b"],
    "training.precision": ["training precision: auto in a, bfloat16 in b"],
    "training.model.parameters": ["training model parameters: 26813184 in a, 28000000 in b"],
    "training.model.active": ["training model active: 20472576 in a, 20000000 in b"],
    "training.model.experts": ["training model experts: 2 in a, 4 in b"],
    "training.model.experts_per_token": ["training model experts per token: 1 in a, 2 in b"],
    "training.model.dense_layers": ["training model dense layers: 1 in a, 2 in b"],
    "training.model.dense_ffn": ["training model dense ffn: 2048 in a, 1024 in b"],
    "training.model.tokens": ["training model tokens: 1000000000 in a, 2000000000 in b"],
    "training.model.layers": ["training model layers: 4 in a, 5 in b"],
    "training.model.hidden": ["training model hidden: 512 in a, 1024 in b"],
    "training.model.heads": ["training model heads: 8 in a, 4 in b"],
    "training.model.kv_heads": ["training model kv heads: 8 in a, 4 in b"],
    "training.model.head": ["training model head: 64 in a, 128 in b"],
    "training.model.value_head": ["training model value head: 64 in a, 32 in b"],
    "training.model.kv_rank": ["training model kv rank: 128 in a, 64 in b"],
    "training.model.query_rank": ["training model query rank: 192 in a, 64 in b"],
    "training.model.rotary": ["training model rotary: 16 in a, 32 in b"],
    "training.model.ffn": ["training model ffn: 1376 in a, 2048 in b"],
    "training.model.vocabulary": ["training model vocabulary: 8192 in a, 16384 in b"],
    "training.model.sequence": ["training model sequence: 128 in a, 256 in b"],
    "training.model.gated": ["training model gated: yes in a, no in b"],
    "training.model.tied": ["training model tied: no in a, yes in b"],
    "extras.roles[].groups": ["role motd groups: gpu in a, head in b"],
    "extras.roles[].variables": ['role motd variables: {"motd_text": "hello"} in a, {"motd_text": "hallo"} in b'],
    "extras.checks[].pools": ["check scratch pools: gpu in a, cpu in b"],
    "extras.checks[].timeout_seconds": ["check scratch timeout: 10 s in a, 5 s in b"],
}


@pytest.mark.parametrize(("path", "value"), OTHERS.items())
def test_every_declared_field_has_words(path: str, value: Any) -> None:
    """A field without words is missing in WORDS."""
    said = counted(PLAN, of(path, value))
    assert set(WORDS[path]) <= set(said), said


@pytest.mark.parametrize(("path", "value"), IDENTITY.items())
def test_differences_of_siblings_are_expected(path: str, value: Any) -> None:
    """The difference is listed and does not count, with all addresses that follow from it."""
    a, b = ComparedSide("one", PLAN), ComparedSide("two", of(path, value))
    assert verdict(a, b) == "equal"
    text = comparison_text(a, b).split("\n\n")
    assert text[0] == "one and two: equal"
    words = {
        "name": "name: one in one, two in two",
        "region": "region: none in one, us-west-2 in two",
        "pools[].zone": "pool gpu zone: none in one, us-west-2b in two",
        "tags[].name": "tag owner: only in one\n  tag team: only in two",
        "tags[].value": "tag owner: research in one, product in two",
        "budget.monthly_usd": "budget a month: 300 USD in one, 500 USD in two",
        "budget.notify": "budget mail to: team@example.com in one, ops@example.com in two",
        "network.cidr": "network range: 10.77.0.0/16 in one, 192.168.0.0/20 in two",
        "extras.roles[].path": "role motd path: motd in one, elsewhere/motd in two",
        "extras.checks[].path": "check scratch path: scratch.sh in one, elsewhere/scratch.sh in two",
    }
    assert text[1] == f"Expected between siblings\n  {words[path]}"
    assert len(text) == 3


def test_pods_follow_from_the_scheduler() -> None:
    """The source of their addresses is described, and is no decision."""
    text = comparison_text(ComparedSide("a", PLAN), ComparedSide("b", ON_KUBERNETES))
    assert "\nConsequences\n  network pods: none in a, a range for each node in b\n" in text
    assert ON_KUBERNETES.network.pods
    ranges = dataclasses.replace(ON_KUBERNETES.network.pods, services_cidr="172.24.0.0/16")
    other = dataclasses.replace(ON_KUBERNETES, network=dataclasses.replace(ON_KUBERNETES.network, pods=ranges))
    said = "\n  network pods services range: 172.20.0.0/16 in a, 172.24.0.0/16 in b\n"
    assert said in comparison_text(ComparedSide("a", ON_KUBERNETES), ComparedSide("b", other))


def test_another_release_is_expected() -> None:
    """Siblings get it one after the other; the text says so."""
    newer = dataclasses.replace(PLAN, release=dataclasses.replace(PLAN.release, name="2027.02", versions=()))
    text = comparison_text(ComparedSide("a", PLAN), ComparedSide("b", newer))
    assert text.startswith("a and b: equal\n\nExpected between siblings\n  release: 2026.11 in a, 2027.02 in b\n\n")


def test_causes_come_before_what_follows_from_them() -> None:
    """A larger pool has more nodes, leaves and trunks, each listed once."""
    text = comparison_text(ComparedSide("a", PLAN), ComparedSide("b", of("pools[].count", 7)))
    assert text.startswith(
        "a and b: different\n"
        "  pool gpu: 4 nodes in a, 7 in b\n"
        "\n"
        "Consequences\n"
        "  rail[0-1] trunk to leaf1-[3-4]: only in b\n"
        "  leaf1-[3-4]: only in b\n"
        "  node gpu-[005-007]: only in b\n"
    )


def test_a_thousand_nodes_are_a_few_lines() -> None:
    """Omitted lines are counted, and in the JSON."""
    large, wide = changed("pools[].count", 1000), changed("pools[].count", 1000)
    wide["fabric"]["leaf_nodes"] = 4
    a, b = (ComparedSide(name, planned(data)) for name, data in (("a", large), ("b", wide)))
    lines = comparison_text(a, b).splitlines()
    assert len(lines) < 30
    assert any(line.endswith("more, which --json has") for line in lines)
    assert len(comparison_data(a, b)["differences"]) > 1000


@pytest.mark.parametrize("plan", [PLAN, ON_KUBERNETES])
def test_words_are_found_exactly_when_the_fingerprints_differ(plan: Plan) -> None:
    """This covers every value that may differ in plans; none uses the generic text."""
    for path, other, counts in mutations(plan):
        found = differences(plan, other)
        assert any(each.kind == "difference" for each in found) is counts, path
        assert all(each.path != "fingerprint" for each in found), path
        assert all("\0" not in line and ": " in line for line in sentences(found, "a", "b")), path


def test_the_order_of_pools_counts() -> None:
    """Addresses and leaves follow it."""
    data = changed("pools[].count", 4)
    data["pools"].reverse()
    assert "order of pools: head, gpu, cpu in a, head, cpu, gpu in b" in counted(PLAN, planned(data))


def test_a_difference_without_words_is_no_equality() -> None:
    """An invalid plan has two entries of the same name: a difference without an explanation is still reported."""
    data = to_dict(PLAN)
    data["users"] = (*data["users"][:1], *data["users"])
    found = differences(PLAN, from_dict(Plan, data))
    assert [each.path for each in found] == ["fingerprint"]


NOW, OTHER = fingerprint(PLAN), "0123456789abcdef"


@pytest.mark.parametrize(
    ("a", "b", "expected", "last"),
    [
        ({}, {}, "equal", f"b: {NOW}; not stamped yet"),
        ({"stamped": NOW}, {"stamped": NOW}, "equal", f"b: {NOW}; stamped as declared"),
        ({"stamped": NOW}, {}, "equal", f"b: {NOW}; not stamped yet"),
        (
            {"stamped": NOW},
            {"stamped": OTHER},
            "different",
            f"b was stamped from an earlier declaration: fingerprint {OTHER}, now {NOW}",
        ),
        ({"stamped": OTHER}, {}, "different", f"b: {NOW}; not stamped yet"),
        (
            {"stamped": OTHER},
            {"stamped": OTHER},
            "equal",
            f"b was stamped from an earlier declaration: fingerprint {OTHER}, now {NOW}",
        ),
        (
            {"stamped": NOW},
            {"unknown": "no \x1b[31mlogin"},
            "unknown",
            f"b: {NOW}; state of the stamped cluster unknown: no \\x1b[31mlogin",
        ),
    ],
)
def test_comparison_shows_stamped_states(a: dict[str, str], b: dict[str, str], expected: str, last: str) -> None:
    """Equal declarations are not equal clusters until both were stamped again."""
    sides = ComparedSide("a", PLAN, **a), ComparedSide("b", PLAN, **b)
    assert verdict(*sides) == expected
    assert comparison_text(*sides).splitlines()[-1] == "  " + last


def test_difference_counts_without_the_backend() -> None:
    """A difference is an answer."""
    assert (
        verdict(ComparedSide("a", PLAN), ComparedSide("b", of("pools[].count", 5), unknown="no login")) == "different"
    )


def test_as_data() -> None:
    """Every difference has its path, kind and text; the data is JSON."""
    data = comparison_data(ComparedSide("a", PLAN), ComparedSide("b", of("pools[].count", 5), unknown="no login"))
    assert json.loads(json.dumps(data)) == data | {"differences": json.loads(json.dumps(data["differences"]))}
    assert data["b"]["stamped"] is None
    text = WORDS["pools[].count"][0]
    assert {"path": "groups[gpu].count", "kind": "difference", "a": 4, "b": 5, "text": text} in data["differences"]
