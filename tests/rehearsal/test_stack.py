"""Rehearsals use the stack's own file, and a change in it is a change of its meaning."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli import rehearse
from stampworks.declaration import DeclarationError, load_value
from stampworks.rehearsal import Stack, read_stack
from stampworks.rehearsal.scenario import ConfigurationChange
from stampworks.rehearsal.stack import DECLARED, changed

from tests.rehearsal.conftest import ROOT

BASE = "version: 1\nname: dev\ncloud: local\npools:\n  - {name: gpu, machine: sim-h100, count: 2}\n"
FILE = "config:\n  a:b: text\n  stampworks:cluster:\n    extends: base.yaml\n    name: mine\n"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    (tmp_path / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "Pulumi.dev.yaml").write_text(FILE)
    return read_stack("dev", tmp_path, tmp_path, {})


def after(stack: Stack, path: str, value: Any) -> Any:
    return changed(stack, stack.config, ConfigurationChange("", path, value))[DECLARED]


def test_a_changed_declaration_stands_alone(stack: Stack) -> None:
    """The declaration is in no file that could have a base."""
    whole = load_value(after(stack, "pools.gpu.count", 6), "a change")
    whole.refuse_problems()
    assert whole.declaration.pools[0].count == 6


def test_without_a_change_the_configuration_is_that_of_the_file(stack: Stack) -> None:
    assert (stack.name, stack.project_name) == ("dev", "trial")
    assert stack.config == {"a:b": "text", DECLARED: {"extends": "base.yaml", "name": "mine"}}


def test_a_change_is_made_in_what_the_file_and_its_base_say_together(stack: Stack) -> None:
    """Entries are found by name or number; new ones are added, and null removes an entry."""
    assert after(stack, "pools.gpu.count", 6)["pools"] == [{"name": "gpu", "machine": "sim-h100", "count": 6}]
    assert after(stack, "pools[0].count", 6) == after(stack, "pools.gpu.count", 6)
    assert after(stack, "owner", "me")["owner"] == "me"
    assert after(stack, "pools.gpu", None)["pools"] == []
    assert "cloud" not in after(stack, "cloud", None)
    assert after(stack, "name", "other")["name"] == "other"


def test_changes_add_up(stack: Stack) -> None:
    config = changed(stack, stack.config, ConfigurationChange("", "pools.gpu.count", 6))
    config = changed(stack, config, ConfigurationChange("", "name", "other"))
    assert (config[DECLARED]["name"], config[DECLARED]["pools"][0]["count"]) == ("other", 6)
    assert changed(stack, config, ConfigurationChange("", "a:b", "new", config=True)) == {**config, "a:b": "new"}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("pools.cpu.count", "the declaration has no 'cpu' on the way to pools.cpu.count"),
        ("pools[3].count", "the declaration has no '3' on the way to pools[3].count"),
        ("fabric.kind.x", "the declaration has no 'fabric' on the way to fabric.kind.x"),
        ("name.x", "the declaration has no 'x' on the way to name.x"),
        ("", "the declaration has no '' on the way to "),
    ],
)
def test_a_path_that_leads_nowhere(stack: Stack, path: str, said: str) -> None:
    with pytest.raises(DeclarationError) as error:
        after(stack, path, 1)
    assert said in str(error.value)


def test_rules_that_a_rehearsal_passes_over_are_those_at_which_an_up_stops(tmp_path: Path) -> None:
    """Images of this stack's nodes were not looked up: its lock is an example."""
    folder = tmp_path / "stacks"
    shutil.copytree(ROOT / "stacks" / "base", folder / "base")
    shutil.copy(ROOT / "stacks" / "Pulumi.aws-p5.yaml", folder)
    (tmp_path / "Pulumi.yaml").write_text("name: trial\nruntime: python\nstackConfigDir: stacks\n")
    with contextlib.chdir(tmp_path):
        found = read_stack("aws-p5", tmp_path, folder, {})
        assert rehearse.rules_passed_over(found, "aws-p5") == ("image.locked",)
        shutil.copy(ROOT / "stacks" / "aws-p5.lock.json", folder)
        assert rehearse.rules_passed_over(found, "aws-p5") == ("lock.example",)


def test_a_stack_that_is_not_there(stack: Stack) -> None:
    with pytest.raises(DeclarationError, match="there is no stack 'deb'\n  hint: did you mean 'dev'"):
        read_stack("deb", stack.project, stack.project, {})


@pytest.mark.parametrize("text", ["- 1\n", "a: [\n", "config: !!python/object:os.system {}\n", "\x00"])
def test_a_file_that_is_no_configuration(stack: Stack, text: str) -> None:
    (stack.project / "Pulumi.dev.yaml").write_text(text)
    with pytest.raises(DeclarationError, match=r"Pulumi\.dev\.yaml: is not a mapping in YAML"):
        read_stack("dev", stack.project, stack.project, {})
