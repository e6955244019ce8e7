"""The fingerprint: the same for all stamps of a cluster, and another one for any other declaration."""

from __future__ import annotations

import copy
import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.declaration import load_file, load_value, schema
from stampworks.declaration.fields import fields, section_of
from stampworks.plan import Plan, apart, fingerprint

DECLARED: dict[str, Any] = yaml.safe_load("""\
version: 1
name: one
cloud: local
release: "2026.11"
tags: [{name: owner, value: research}, {name: cost-centre, value: "42"}]
budget: {monthly_usd: 300, notify: [team@example.com]}
network: {cidr: 10.77.0.0/16}
pools:
  - {name: gpu, machine: sim-h100, count: 4}
  - {name: cpu, machine: sim-cpu, count: 1}
fabric: {kind: simulated, rail_rate_mbps: 200, leaf_nodes: 2, oversubscription: 1}
storage: [{name: shared, kind: directory, mount: /shared, protect: true}]
users:
  - name: alice
    uid: 2001
    accounts: [research]
    groups: [nlp]
    keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA alice@laptop]
  - {name: bob, uid: 2002}
groups: [{name: nlp, gid: 3001}, {name: vision, gid: 3002}]
scheduler:
  kind: slurm
  accounting: true
  topology: tree
  preemption: requeue
  drain_timeout_minutes: 10
  protect: true
  queues:
    - {name: main, pools: [gpu, cpu], default: true, time_limit_minutes: 0, priority: normal}
    - {name: short, pools: [cpu]}
  priorities:
    - {name: normal, weight: 100}
    - {name: urgent, weight: 900, preempts: [normal]}
  accounts: [{name: research, share: 1, accelerators_max: 0}, {name: product}]
proof: {level: standard, budget_minutes: 10, failed_nodes_max: 0}
roll: {max_unavailable_percent: 10, jobs: wait}
training:
  layout: tp
  tensor_parallel: 1
  ranks: 2
  steps: 100
  batch: 16
  tracker: {kind: wandb, url: "http://10.0.0.5:5000", experiment: demo}
  checkpoints: {directory: /shared/checkpoints, keep: 3}
  model:
    {tokens: 1B, layers: 4, hidden: 512, heads: 8, kv_heads: 8, head: 64, value_head: 64, kv_rank: 128, query_rank: 192,
     rotary: 16, ffn: 1376, vocabulary: 8192, sequence: 128, experts: 2, experts_per_token: 1, dense_layers: 1,
     dense_ffn: 2048}
extras:
  roles: [{path: motd, groups: [gpu], variables: {motd_text: hello}}]
  checks: [{path: scratch.sh, pools: [gpu], timeout_seconds: 10}]
""")
OWN = Path(__file__).parent / "own"
"""Folder of the user's roles and checks."""

IDENTITY = {
    "name": "two",
    "region": "us-west-2",
    "pools[].zone": "us-west-2b",
    "tags[].name": "team",
    "tags[].value": "product",
    "budget.monthly_usd": 500,
    "budget.notify": ["ops@example.com"],
    "network.cidr": "192.168.0.0/20",
    "extras.roles[].path": "elsewhere/motd",
    "extras.checks[].path": "elsewhere/scratch.sh",
}
OTHERS: dict[str, Any] = {
    "scheduler.kind": "kubernetes",
    "pools[].name": "train",
    "pools[].machine": "sim-a100-small",
    "pools[].count": 5,
    "pools[].scheduling_only": True,
    "fabric.rail_rate_mbps": 400,
    "fabric.leaf_nodes": 4,
    "fabric.spine_leaves": 1,
    "fabric.oversubscription": 2,
    "storage[].name": "data",
    "storage[].mount": "/data",
    "storage[].protect": False,
    "users[].name": "carol",
    "users[].uid": 2003,
    "users[].accounts": ["product"],
    "users[].groups": ["vision"],
    "users[].keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "B" * 43],
    "groups[].name": "team",
    "groups[].gid": 3003,
    "storage[].homes": True,
    "scheduler.accounting": False,
    "scheduler.topology": "flat",
    "scheduler.preemption": "cancel",
    "scheduler.drain_timeout_minutes": 20,
    "scheduler.login_nodes": 1,
    "scheduler.protect": False,
    "scheduler.queues[].name": "all",
    "scheduler.queues[].pools": ["gpu"],
    "scheduler.queues[].default": False,
    "scheduler.queues[].time_limit_minutes": 60,
    "scheduler.queues[].priority": "urgent",
    "scheduler.priorities[].name": "usual",
    "scheduler.priorities[].weight": 101,
    "scheduler.priorities[].preempts": [],
    "scheduler.accounts[].name": "science",
    "scheduler.accounts[].share": 2,
    "scheduler.accounts[].accelerators_max": 8,
    "proof.level": "quick",
    "proof.budget_minutes": 20,
    "proof.failed_nodes_max": 1,
    "roll.max_unavailable_percent": 100,
    "roll.jobs": "requeue",
    "training.layout": "ddp",
    "training.tensor_parallel": 2,
    "training.precision": "bfloat16",
    "training.ranks": 4,
    "training.steps": 200,
    "training.batch": 32,
    "training.tracker.kind": "mlflow",
    "training.tracker.url": "http://10.0.0.5:6000",
    "training.tracker.experiment": "other",
    "training.checkpoints.directory": "/shared/other",
    "training.checkpoints.keep": 5,
    "training.model.parameters": "28M",
    "training.model.tokens": 2e9,
    "training.model.layers": 5,
    "training.model.hidden": 1024,
    "training.model.heads": 4,
    "training.model.kv_heads": 4,
    "training.model.head": 128,
    "training.model.value_head": 32,
    "training.model.kv_rank": 64,
    "training.model.query_rank": 64,
    "training.model.rotary": 32,
    "training.model.ffn": 2048,
    "training.model.vocabulary": 16384,
    "training.model.sequence": 256,
    "training.model.gated": False,
    "training.model.tied": True,
    "training.model.experts": 4,
    "training.model.experts_per_token": 2,
    "training.model.dense_layers": 2,
    "training.model.dense_ffn": 1024,
    "training.model.active": "20M",
    "extras.roles[].groups": ["head"],
    "extras.roles[].variables": {"motd_text": "hallo"},
    "extras.checks[].pools": ["cpu"],
    "extras.checks[].timeout_seconds": 5,
}
ONLY_ONE_VALUE = {"version"}
OF_FILE_SYSTEMS = {
    *(f"storage[].{name}" for name in ("kind", "tier", "capacity", "mbps_per_tib", "throughput_mbps")),
    *(f"storage[].{name}" for name in ("read_cache_gib", "metadata_iops", "efa", "features", "repository")),
    *("storage[].expire_days", "storage[].expire_folder", "storage[].existing"),
}
OF_ACCOUNTS = {path for path in fields() if path.startswith(("network.existing.", "account."))}
OF_ACCOUNTS -= {path for path in OF_ACCOUNTS if section_of(fields()[path])}
"""Parts of an account, and its owners' terms; test_existing.py and test_terms.py have them."""
REFUSED_BY_THE_PLANNER = {
    *("cloud", "fabric.kind", "pools[].count_min", "pools[].purchase", "pools[].reservation"),
    *("pools[].fallbacks[].purchase", "pools[].fallbacks[].reservation"),
    *("network.egress", "network.card_addresses", "scheduler.database", "logs.days", "scheduler.workloads_image"),
    *("scheduler.api_from", "scheduler.admins", "scheduler.idle_minutes"),
    *OF_FILE_SYSTEMS,
    *OF_ACCOUNTS,
}
"""Fields with a single valid value on the local cloud; test_storage.py has them on others."""
OF_KUBERNETES = {"network.pods_cidr", "network.services_cidr", "scheduler.pods_per_node"}
"""Fields without an effect on Slurm; test_pods.py has them."""
OF_ADDONS = {path for path in fields() if path.startswith("scheduler.addons.")}
"""The same; test_addons.py has them."""
OF_HOSTS = {path for path, field in fields().items() if path.startswith("hosts.") and not section_of(field)}
"""Machines, which siblings never share; declaration/test_hosts.py has them."""
OF_DIRECTORY = {path for path in fields() if path.startswith("directory.")}
"""Fields that depend on each other; test_directory.py has them."""
NO_MEANING_OF_ITS_OWN = {"extends", "release"}
"""Fields without an effect of their own: the source of a declaration; and the software, which the fingerprint leaves
out."""
FOLLOW: dict[str, list[tuple[str, Any]]] = {  # fields that have to change with a field, because they name it
    "pools[].name": [
        ("scheduler.queues[].pools", ["train", "cpu"]),
        ("extras.roles[].groups", ["train"]),
        ("extras.checks[].pools", ["train"]),
    ],
    "pools[].scheduling_only": [
        ("scheduler.queues[].pools", ["cpu"]),
        ("scheduler.queues.1.pools", ["gpu"]),
        ("extras.roles[].groups", ["cpu"]),
        ("extras.checks[].pools", ["cpu"]),
    ],
    "storage[].mount": [("training.checkpoints.directory", "/data/checkpoints")],
    "users[].accounts": [],
    "scheduler.queues[].default": [("scheduler.queues.1.default", True)],
    "scheduler.accounting": [("scheduler.accounts", []), ("users[].accounts", [])],
    "scheduler.priorities[].name": [
        ("scheduler.queues[].priority", "usual"),
        ("scheduler.priorities.1.preempts", ["usual"]),
    ],
    "scheduler.priorities[].preempts": [("scheduler.priorities.1.preempts", [])],
    "groups[].name": [("users[].groups", ["team"])],
    "scheduler.accounts[].name": [("users[].accounts", ["science"])],
    "training.model.heads": [("training.model.kv_heads", 4)],
    "training.model.kv_heads": [(f"training.model.{name}", 0) for name in ("kv_rank", "query_rank", "rotary")],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(DECLARED)
    for where, new in [(path, value), *FOLLOW.get(path, [])]:
        *way, last = where.replace("[]", ".0").split(".")
        at(data, way)[last] = new
    return data


def at(data: Any, way: list[str]) -> Any:
    for step in way:
        data = data[int(step) if step.isdecimal() else step]
    return data


def planned(data: dict[str, Any]) -> Plan:
    return planning.plan(load_value(data, "test", OWN))


def of(data: dict[str, Any]) -> str:
    return fingerprint(planned(data))


def test_no_declared_field_is_forgotten() -> None:
    """A new field has to say here whether two clusters may differ in it."""
    leaves = {path for path, field in fields().items() if section_of(field) is None}
    others = {*ONLY_ONE_VALUE, *REFUSED_BY_THE_PLANNER, *OF_KUBERNETES, *OF_ADDONS, *OF_DIRECTORY}
    others |= NO_MEANING_OF_ITS_OWN | OF_HOSTS
    assert leaves == {*IDENTITY, *OTHERS, *others}


def test_fields_of_one_value_have_one() -> None:
    """A field with a second value must move to the other list."""
    definitions = [schema(), *schema()["$defs"].values()]
    for path in ONLY_ONE_VALUE:
        name = path.rpartition(".")[2]
        title = "Declaration"
        [found] = [each["properties"][name] for each in definitions if each.get("title") == title]
        assert "const" in found, path


@pytest.mark.parametrize(("path", "value"), IDENTITY.items())
def test_fingerprint_ignores_names_and_addresses(path: str, value: Any) -> None:
    """A cluster with another name and other addresses has the same fingerprint."""
    assert of(changed(path, value)) == of(DECLARED)


@pytest.mark.parametrize(("kind", "path"), [("roles", "banner"), ("checks", "quota.sh")])
def test_another_role_or_check_counts(kind: str, path: str) -> None:
    """The name counts: the path belongs to the project, and the content to the playbook's digest."""
    data = copy.deepcopy(DECLARED)
    data["extras"][kind][0] = {"path": path, "groups" if kind == "roles" else "pools": ["gpu"]}
    assert of(data) != of(DECLARED)


@pytest.mark.parametrize(("path", "value"), OTHERS.items())
def test_every_other_declared_field_counts(path: str, value: Any) -> None:
    """All other declared fields change the fingerprint."""
    assert of(changed(path, value)) != of(DECLARED)


@pytest.mark.parametrize("path", sorted({path for path in fields() if path + "[].name" in fields()} - {"tags"}))
def test_one_entry_less_counts(path: str) -> None:
    """A removed entry of any list counts, except tags for bills."""
    unnamed: dict[str, tuple[str, Any]] = {
        "pools": ("scheduler.queues", []),
        "scheduler.accounts": ("users[].accounts", []),
        "storage": ("training.checkpoints", {}),
    }
    data = changed(*unnamed[path]) if path in unnamed else copy.deepcopy(DECLARED)
    before = of(data)
    at(data, path.split(".")).pop()
    assert of(data) != before


def test_a_base_leaves_no_trace(tmp_path: Path) -> None:
    """The files of a declaration say nothing about the cluster."""
    shutil.copytree(OWN, tmp_path, dirs_exist_ok=True)
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(DECLARED))
    (tmp_path / "one.yaml").write_text("extends: base.yaml\nname: another\n")
    assert fingerprint(planning.plan(load_file(tmp_path / "one.yaml"))) == of(DECLARED)


def mutations(value: Any, mark: str = "", counted: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Yield every change of a value of a plan: its place, the changed plan, and whether it counts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            counted = "counted" in field.metadata
            for path, new, counts in mutations(getattr(value, field.name), mark or apart(field), counted):
                yield f".{field.name}{path}", dataclasses.replace(value, **{field.name: new}), counts
    elif isinstance(value, tuple):
        if value:
            yield "[-]", value[:-1], not mark or counted
        for index, item in enumerate(value):
            for path, new, counts in mutations(item, mark):
                yield f"[{index}]{path}", (*value[:index], new, *value[index + 1 :]), counts
    elif isinstance(value, bool):
        yield "", not value, not mark
    elif value is not None:
        yield "", value + "x" if isinstance(value, str) else value + 1, not mark


PLAN = planned(DECLARED)
ON_KUBERNETES = planned(changed("scheduler.kind", "kubernetes"))


@pytest.mark.parametrize("plan", [PLAN, ON_KUBERNETES])
def test_every_value_of_a_plan_counts_unless_it_is_marked(plan: Plan) -> None:
    """The fingerprint leaves out the marked fields of the plan, and nothing else."""
    before = fingerprint(plan)
    for path, new, counts in mutations(plan):
        assert (fingerprint(new) != before) is counts, path


def test_it_is_short_and_plain() -> None:
    """Something that can be read aloud, and compared by eye."""
    assert re.fullmatch("[0-9a-f]{16}", fingerprint(PLAN))
