"""Rules are data: they are found by type, and their names exist."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_stack
from stampworks.rehearsal.rules import FOLDER, ResourceRule, Rules, RuleSource, rules_of, without_sdk
from stampworks.schedulers import addons
from stampworks.schedulers.kubernetes import objects
from stampworks.wire.values import UNKNOWN

URN = "urn:pulumi:dev::trial::aws:ec2/vpc:Vpc::net"
GETTER = re.compile(r'@pulumi\.getter(?:\(name="(\w+)"\))?\n(?:\s+@.*\n)*\s+def (\w+)')
PACKAGES = sorted({file.stem for file in FOLDER.glob("*.yaml")} - {*without_sdk()})


def test_an_id_is_another_one_for_another_resource_and_for_the_next_one() -> None:
    rules = Rules("aws", {"aws:ec2/vpc:Vpc": ResourceRule(id="c-{digest}")})
    first, _ = rules.outputs(URN, 1, {})
    assert first == rules.outputs(URN, 1, {})[0]
    assert len({first, rules.outputs(URN, 2, {})[0], rules.outputs(f"{URN}2", 1, {})[0]}) == 3
    assert re.fullmatch("c-[0-9a-f]{17}", first)


def test_outputs_are_filled_and_what_the_program_gave_comes_back() -> None:
    outputs = {"arn": "arn:{id}", "called": "{name}-made", "size": 1, "all": "{tags}", "no": "{x}"}
    rules = Rules("aws", {"aws:ec2/vpc:Vpc": ResourceRule(id="{name}", outputs=outputs)}, every={"list": ["{id}"]})
    given = {"tags": {"a": "b"}, "size": 3}
    computed = {"list": ["net"], "arn": "arn:net", "called": "net-made", "all": {"a": "b"}}
    assert rules.outputs(URN, 1, given) == ("net", {**computed, **given})
    assert rules.computed("aws:ec2/vpc:Vpc") == {"arn", "called", "size", "all", "no", "list"}


def test_a_unique_name_is_the_programs_or_made_up() -> None:
    rule = ResourceRule(id="{unique}", outputs={"label": "{unique}"}, unique="label")
    rules = Rules("aws", {"aws:ec2/vpc:Vpc": rule})
    assert rules.outputs(URN, 1, {"label": "mine"}) == ("mine", {"label": "mine"})
    made_up, outputs = rules.outputs(URN, 1, {})
    assert re.fullmatch("net-[0-9a-f]{7}", made_up)
    assert outputs == {"label": made_up}
    assert rules.outputs(URN, 2, {})[0] != made_up


@pytest.mark.parametrize(
    ("path", "old", "new", "replaced"),
    [
        ("zone", {"zone": "a"}, {"zone": "b"}, True),
        ("other", {"other": "a"}, {"other": "b"}, False),
        ("zones", {"zones": "a"}, {"zones": "b"}, False),
        ("cpu.cores", {"cpu": {"cores": 1}}, {"cpu": {"cores": 2}}, True),
        ("disks[1].sealed", {}, {}, True),
        ("disks[1].size", {}, {}, False),
        ("disks[0]", {"disks": []}, {"disks": [{"sealed": True}]}, True),
        ("disks[0]", {"disks": []}, {"disks": [{"size": 1}]}, False),
        ("disks", {"disks": [{"sealed": True}]}, {}, True),
        ("capacity", {"capacity": 2}, {"capacity": 3}, False),
        ("capacity", {"capacity": 3}, {"capacity": 2}, True),
        ("capacity", {"capacity": 3}, {}, True),
        ("capacity", {"capacity": 2}, {"capacity": 3, "tier": "fixed"}, True),
        ("scale.rate", {"scale": {"rate": 2}}, {"scale": {"rate": 3}}, False),
        ("scale.rate", {"scale": {"rate": 3}}, {"scale": {"rate": 2}}, True),
        ("version", {"version": "2.12"}, {"version": "2.15"}, False),
        ("version", {"version": "2.15"}, {"version": "2.12"}, True),
        ("boot", {"boot": "a"}, {"boot": "b"}, False),
        ("boot", {"boot": "a"}, {"boot": "b", "renews": False}, False),
        ("boot", {"boot": "a"}, {"boot": "b", "renews": True}, True),
        ("boot", {}, {"boot": "b", "renews": UNKNOWN}, True),
        ("renews", {"boot": "a"}, {"boot": "a", "renews": True}, False),
    ],
)
def test_fields_that_replace(path: str, old: Mapping[str, Any], new: Mapping[str, Any], replaced: bool) -> None:
    rule = ResourceRule(
        replaces=frozenset({"zone", "cpu", "disks.sealed"}),
        replaces_when={"boot": {"renews": True}, "capacity": {"tier": "fixed"}},
        replaces_when_smaller=frozenset({"capacity", "scale.rate", "version"}),
    )
    assert rule.replacing(path, old, new) is replaced


def test_a_package_without_rules_has_none() -> None:
    assert rules_of("nowhere") == Rules("nowhere")


def test_durations_carry_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stampworks.rehearsal.rules.FOLDER", tmp_path)
    file = "read: 2026-11-22\nsources: https://x/\ntypes: {a:b:C: {takes: {seconds: 90, source: y}}, a:b:D: {}}\n"
    (tmp_path / "with-durations.yaml").write_text(file)
    rules = rules_of("with-durations")
    found = rules.types["a:b:C"]
    assert (found.seconds, found.seconds_source) == (90, RuleSource("https://x/y", "2026-11-22"))
    assert rules.types["a:b:D"].seconds is None


def test_provider_retries_as_documented() -> None:
    assert rules_of("aws").attempts > rules_of("nowhere").attempts == 1
    for package in (*PACKAGES, *without_sdk()):
        rules = rules_of(package)
        assert rules.attempts_source or rules.attempts == 1, f"{package}: no source says how often it tries"


@pytest.mark.parametrize("package", PACKAGES)
def test_rules_name_what_the_sdk_has(package: str) -> None:
    """Each type exists, and has each replacing input and each output as a property."""
    spec = importlib.util.find_spec(f"pulumi_{package}")
    assert spec
    assert spec.origin
    code = {_token(text): text for text in _modules(Path(spec.origin).parent)}
    wrong = []
    for token, rule in rules_of(package).types.items():
        conditions = {name for each in rule.replaces_when.values() for name in each}
        replacing = {key.split(".")[0] for key in (*rule.replaces, *rule.replaces_when, *rule.replaces_when_smaller)}
        assert rule.source or not replacing, f"{token} replaces, and no source says so"
        known = {name or same for name, same in GETTER.findall(code.get(token, ""))}
        states = [path for each in rule.refuses for path in (*each.paths, each.within, *each.unless)]
        refused = {path.split(".")[0] for path in states}
        named = {*replacing, *conditions, *refused, *rule.outputs, *rule.counts, rule.unique} - {""}
        wrong += [f"{token}: {name}" for name in sorted(named - known)]
    assert not wrong


@pytest.mark.parametrize("stack", ["aws-p5en-eks", "local-k8s"])
def test_every_object_that_a_kubernetes_is_given_has_a_rule(stack: str) -> None:
    plan = planning.plan(load_stack(stack, Path(__file__).parents[2] / "stacks"))
    known = {token.partition(":")[2].removeprefix("core/") for token in rules_of("kubernetes").types}
    given = [*objects(plan), *(each for one in plan.scheduler.addons for each in addons.objects(one))]
    kinds = {f"{each['apiVersion']}:{each['kind']}" for each in given}
    assert not {*kinds, *("helm.sh/v3:Release" for one in plan.scheduler.addons if one.by == "helm")} - known


def _modules(folder: Path) -> list[str]:
    return [text for file in folder.glob("*/*.py") if "@pulumi.type_token(" in (text := file.read_text())]


def _token(text: str) -> str:
    return str(re.findall(r'@pulumi\.type_token\("([^"]+)"\)', text)[-1])
