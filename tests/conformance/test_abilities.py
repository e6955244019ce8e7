"""Abilities that a cloud lacks are refused before anything is made, each at its place; abilities that it has are
planned. A cloud is called stamped only where this suite has a running cluster of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.cli.main import main
from stampworks.clouds.contract import Cloud
from stampworks.clouds.registry import CLOUDS, stamped
from stampworks.cluster.clouds import refusals
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan
from stampworks.planning.clouds import CLOUDS as CHOICES

from tests.conformance.clouds import CONFORMING
from tests.conformance.declared import declared
from tests.portable import machine

PROJECT = "name: test\nruntime: python\nstackConfigDir: stacks\n"


def pool(cloud: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "gpu", "machine": machine(cloud).name, "count": 2, **more}]


ASKED: Mapping[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "elastic": ("pools[0].count_min", lambda cloud: {"pools": pool(cloud, count_min=1)}),
    "database": ("scheduler.database", lambda _: {"scheduler": {"accounting": True, "database": "managed"}}),
    "kubernetes": ("scheduler.kind", lambda _: {"scheduler": {"kind": "kubernetes"}}),
}
"""Abilities that a declaration asks for: the place of the refusal, and the fields."""
VERBS: Mapping[str, tuple[str, ...]] = {
    "account": ("facts", "-s", "test"),
    "lookups": ("lock", "-s", "test"),
    "image_builder": ("image", "-s", "test", "--packer", "image.json"),
}
"""Abilities that a verb asks for, with its words. """
OF_RUNNING = {"faults", "doors"}
"""Abilities that only a running cluster is asked for."""
NEEDED = {"resources", "members", "renewal"}


def planned(data: Mapping[str, Any]) -> Plan:
    return planning.plan(load_value(dict(data), "test"))


def refused(cloud: str, **more: Any) -> dict[str, str]:
    """Return the refusals before an `up` of such a cluster, by their places; the caller is root, as on a cloud."""
    try:
        plan = planned(declared(cloud, **more))
    except DeclarationError as error:
        return {problem.path: problem.message for problem in error.problems}
    return {place: what for place, what, *_ in refusals(plan, ())}


def test_each_ability_is_asked_for() -> None:
    """A new optional part gets a line in one of the tables above."""
    assert {*ASKED, *VERBS, *OF_RUNNING, *NEEDED} == {field.name for field in fields(Cloud)}


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("ability", ASKED)
def test_a_declaration_gets_what_the_cloud_has(cloud: str, ability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the ability the refusal names the cloud, at the line that asks for it."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    place, asked = ASKED[ability]
    plain = refused(cloud)  # as of hosts, which are missing here
    found = {where: what for where, what in refused(cloud, **asked(cloud)).items() if where not in plain}
    if getattr(CLOUDS[cloud], ability):
        assert found == {}
        return
    assert [*found] == [place]
    assert cloud in found[place]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_refuses_what_the_cloud_lacks(
    cloud: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the cloud, and has a hint."""
    if getattr(CLOUDS[cloud], verb):
        pytest.skip(f"{cloud} has it")
    monkeypatch.chdir(tmp_path)
    Path("stacks").mkdir()
    Path("Pulumi.yaml").write_text(PROJECT)
    stack = {"config": {"stampworks:cluster": declared(cloud)}}
    Path("stacks", "Pulumi.test.yaml").write_text(yaml.safe_dump(stack))
    assert main([*VERBS[verb]]) == 2
    said = capsys.readouterr().err
    assert cloud in said
    assert "\n  hint: " in said


@pytest.mark.parametrize("cloud", CHOICES)
def test_only_a_cloud_of_this_suite_is_called_stamped(cloud: str) -> None:
    """Planning says so of a cloud exactly where the suite has a running cluster of it."""
    entry = CONFORMING.get(cloud)
    assert CHOICES[cloud].stamped is bool(entry and entry.running)
    found = refused(cloud)
    words = f"a cluster on {cloud} can be planned and reviewed, and not stamped yet"
    assert found.get("cloud") == (None if CHOICES[cloud].stamped else words)


def test_every_cloud_of_the_registry_is_in_this_suite() -> None:
    assert set(CONFORMING) == set(CLOUDS)
    assert {cloud for cloud, entry in CONFORMING.items() if entry.running} == set(stamped())
