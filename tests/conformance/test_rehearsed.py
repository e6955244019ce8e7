"""Every cloud's stacks in the real engine, with providers that only record: the promises that hold on all clouds."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from stampworks import planning
from stampworks.clouds.registry import CLOUDS
from stampworks.declaration import load_stack, load_value, read_lock
from stampworks.plan import Plan
from stampworks.rehearsal import load_scenario, read_stack
from stampworks.rehearsal.own import NO_SECRET
from stampworks.rehearsal.stack import DECLARED, changed

from tests.conformance.clouds import CONFORMING, Conforming
from tests.rehearsed import ROOT, Rehearse, Rehearsed, scenario_of

pytestmark = pytest.mark.engine
ENCRYPTED = "4dabf18193072939515e22adb298388d"  # marker of secrets in the engine's format
KEYS = frozenset({"stampworks:cluster:Keyring", "stampworks:cluster:SigningKey"})
OF_ALL = {"name", "head", "nodes", "mounts", "cost_tags", "endings", "fingerprint", "verdict", "verification_key"}
OF_ENTRY = {"use", "ssh", "logins"}
"""Outputs that say how to begin, empty where a scheduler has no such way."""
NOTHING_TWICE = "the next up finishes, with nothing twice"
PROTECTED = "refused by its preview, for these are protected: "
STACKS = [
    pytest.param((cloud, stack), id=stack, marks=[pytest.mark.long] if number else [])
    for cloud, entry in CONFORMING.items()
    for number, stack in enumerate(entry.stacks)
]
COUNT = re.compile(r"pools\.\w+\.count")


def crashes(stack: str) -> list[str]:
    return [f"failure: {each}" for each in load_scenario(scenario_of(stack)).failures if each.kind == "crash"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A rehearsed stack of a cloud."""

    cloud: str
    entry: Conforming
    rehearsed: Rehearsed
    plan: Plan


@pytest.fixture(params=STACKS)
def case(request: pytest.FixtureRequest, rehearse: Rehearse) -> Case:
    cloud, stack = request.param
    plan = planning.plan(load_stack(stack, ROOT / "stacks"))
    assert plan.cloud == cloud
    return Case(cloud, CONFORMING[cloud], rehearse(stack), plan)


def after_changes(case: Case) -> Plan:
    """Return the plan with all changes of the scenario that were made."""
    stack = read_stack(case.rehearsed.stack, ROOT, ROOT / "stacks", {})
    config = stack.config
    for change in load_scenario(scenario_of(stack.name)).changes:
        if case.rehearsed.phase(f"change: {change.name}")["verdict"] == "pass":
            config = changed(stack, config, change)
    lock = read_lock(ROOT / "stacks" / f"Pulumi.{stack.name}.yaml")
    return planning.plan(load_value(config[DECLARED], "stack", lock=lock))


def test_a_stack_comes_stays_and_goes(case: Case) -> None:
    """Nothing is created twice, changes by itself, or is left over."""
    for name in ("preview", "up", "up again", "refresh", "destroy"):
        assert case.rehearsed.phase(name)["verdict"] == "pass", name
    for name in ("up again", "refresh"):
        assert case.rehearsed.phase(name)["found"] == "0 changes", name


def test_a_rule_says_what_replaces_each(case: Case) -> None:
    """Every created type has a rule, which also names its computed outputs."""
    assert case.rehearsed.found["types_without_rule"] == []


def test_resources_do_not_grow_with_nodes(case: Case) -> None:
    """Another count of nodes updates resources, and makes and ends none."""
    changes = [change.name for change in load_scenario(scenario_of(case.rehearsed.stack)).changes if counts(change)]
    assert changes, "its scenario changes no count"
    for name in changes:
        phase = case.rehearsed.phase(f"change: {name}")
        assert phase["verdict"] == "pass", name
        assert {step["op"] for step in phase["steps"]} == {"update"}, name


def counts(change: Any) -> bool:
    return bool(COUNT.fullmatch(change.path))


def test_outputs_have_the_same_names(case: Case) -> None:
    """They say how to begin, where data is, and which tags to look for in a bill."""
    outputs, plan = case.rehearsed.found["outputs"], case.plan
    assert set(outputs) >= OF_ALL
    assert set(outputs) - OF_ALL == OF_ENTRY
    assert (outputs["name"], outputs["nodes"]) == (plan.name, sum(len(pool.nodes) or pool.count for pool in plan.pools))
    assert re.match(rf"stampworks (run|kubectl) -s {case.rehearsed.stack} -- ", outputs["use"])
    # a rehearsed cluster is reached by a command that fails
    assert ("ssh -F none " in outputs["ssh"]) is (plan.scheduler.kind == "slurm")
    assert set(outputs["mounts"]) == {each.mount for each in plan.storage}
    assert all(outputs["mounts"].values())
    assert outputs["cost_tags"] == cost_tags(case)
    assert outputs["endings"] == []  # in a rehearsal nothing runs, and so nothing ends


def cost_tags(case: Case) -> dict[str, str]:
    return dict(CLOUDS[case.cloud].resources().place.cost_tags(case.plan))


def test_everything_has_its_tags(case: Case) -> None:
    """Every resource that can have them has the cluster's and the billing tags, also after a change."""
    wanted = cost_tags(case)
    assert wanted.items() >= {each.name: each.value for each in case.plan.tags}.items()
    able = [each for each in (*case.rehearsed.made, *case.rehearsed.added) if case.entry.takes_tags(each["type"])]
    assert bool(able) is bool(wanted)
    for each in able:
        tags = each["values"].get("tags")
        assert tags, (each["type"], each["name"])
        said = {one["key"]: one["value"] for one in tags} if isinstance(tags, list) else tags
        assert wanted.items() <= said.items(), (each["type"], each["name"])


def test_nothing_is_public(case: Case) -> None:
    """Neither in the beginning nor after all changes."""
    assert case.rehearsed.made
    assert case.entry.public(case.rehearsed) == []
    assert case.entry.public(case.rehearsed.with_changes()) == []


def test_what_holds_data_is_protected(case: Case) -> None:
    """`destroy` stops at file systems and schedulers that the declaration protects."""
    notes = case.rehearsed.phase("destroy").get("notes", ())
    said = next((note.removeprefix(PROTECTED) for note in notes if note.startswith(PROTECTED)), "")
    refused = {each.rpartition(" ")[2] for each in said.split(", ")} - {""}
    plan = after_changes(case)
    kept = {f"{plan.name}-{each.name}" for each in plan.storage if each.protect and not each.existing}
    assert refused >= kept
    head = f"{plan.name}-head-state" if plan.controller.volumes else f"{plan.name}-head"
    own = plan.name if plan.managed else head
    assert (own in refused) is plan.scheduler.protect
    first = case.rehearsed.stack == case.entry.stacks[0]
    assert kept or plan.scheduler.protect or not first, "the first stack of a cloud protects something"


def test_no_secret_is_in_the_state_in_clear(case: Case) -> None:
    """A rehearsal replaces all secrets by one text, and every holder encrypts it."""
    resources = json.loads(case.rehearsed.state)["deployment"]["resources"]
    assert [each["urn"] for each in resources if NO_SECRET in json.dumps(each)] == [], "a secret in clear"
    holders = {each["type"] for each in resources if ENCRYPTED in json.dumps(each)}
    assert {each["type"] for each in resources} & (KEYS | case.entry.secrets) <= holders
    assert holders & KEYS


@pytest.mark.parametrize("case", [each for each in STACKS if crashes(str(each.id))], indirect=True)
def test_a_kill_leaves_nothing(case: Case) -> None:
    """The next `up` finishes what a killed one began. A resource that it cannot find is one of those that are listed
    for the cloud, and is named with its id."""
    for name in crashes(case.rehearsed.stack):
        phase = case.rehearsed.phase(name)
        left = [note for note in phase["notes"] if note.startswith("there, and in no state: ")]
        assert (phase["found"] == NOTHING_TWICE) is not left, phase
        for note in left:
            found = re.fullmatch(r"there, and in no state: (\S+) \S+ \(\S+\)", note)
            assert found, note
            assert found[1] in case.entry.lost, note


@pytest.mark.parametrize("cloud", CONFORMING)
def test_each_cloud_is_killed_once(cloud: str) -> None:
    assert [name for stack in CONFORMING[cloud].stacks for name in crashes(stack)]


def test_every_stack_of_this_repository_is_here() -> None:
    """A stack on a cloud of the suite is rehearsed with it, or is stamped by other tests."""
    stamped = {"local-accounting", "local-queues", "local-k8s"}
    stacks = {file.stem.removeprefix("Pulumi.") for file in (ROOT / "stacks").glob("Pulumi.*.yaml")}
    assert {stack for entry in CONFORMING.values() for stack in entry.stacks} | stamped == stacks
