"""The documentation says what is true: every setting, every verb, every option, every file."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from stampworks.cli.main import parser

from tests.docs import addons, clouds, machines, policies, roles, rules, settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = (ROOT / "docs" / "commands.md").read_text()


def verbs() -> dict[str, argparse.ArgumentParser]:
    [choices] = [action.choices for action in parser()._actions if isinstance(action.choices, dict)]
    return choices


def actions(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a verb, and of its actions."""
    nested = [each for action in verb._actions if isinstance(action.choices, dict) for each in action.choices.values()]
    return [*verb._actions, *(action for each in nested for action in actions(each))]


def documented(verb: str) -> str:
    """The section of a verb, without its heading."""
    found = re.search(rf"^## stampworks {verb}\n(.*?)(?=^## |\Z)", COMMANDS, re.MULTILINE | re.DOTALL)
    assert found, f"docs/commands.md has no section '## stampworks {verb}'"
    return found[1]


def test_settings_are_current() -> None:
    """docs/settings.md is what the schema says now; `python -m tests.docs.settings` writes it."""
    assert settings.PAGE.read_text() == settings.page(), "run: python -m tests.docs.settings"


def test_machines_are_current() -> None:
    """docs/machines.md is what the catalog says now; `python -m tests.docs.machines` writes it."""
    assert machines.PAGE.read_text() == machines.page(), "run: python -m tests.docs.machines"


def test_clouds_are_current() -> None:
    """docs/clouds.md is what the code says now; `python -m tests.docs.clouds` writes it."""
    assert clouds.PAGE.read_text() == clouds.page(), "run: python -m tests.docs.clouds"


def test_rules_are_current() -> None:
    """docs/rules.md is what the registry says now; `python -m tests.docs.rules` writes it."""
    assert rules.PAGE.read_text() == rules.page(), "run: python -m tests.docs.rules"


def test_add_ons_are_current() -> None:
    """The table in docs/kubernetes.md is what the catalog says now; `python -m tests.docs.addons` writes it."""
    assert addons.PAGE.read_text() == addons.page(), "run: python -m tests.docs.addons"


def test_stages_are_current() -> None:
    """The table in playbooks/README.md is what the registry says now; `python -m tests.docs.roles` writes it."""
    assert roles.PAGE.read_text() == roles.page(), "run: python -m tests.docs.roles"


def test_policies_are_current() -> None:
    """`python -m tests.docs.policies` makes them anew."""
    for name, document in policies.policies().items():
        assert (DOCS / name).read_text() == policies.text(document), name


def test_every_verb_has_a_section_and_no_other_has() -> None:
    """Verbs of the parser and sections of the page are the same."""
    assert re.findall(r"^## stampworks ([\w-]+)$", COMMANDS, re.MULTILINE) == list(verbs())


@pytest.mark.parametrize("verb", verbs())
def test_every_option_is_documented_and_no_other_is(verb: str) -> None:
    """The list of a section has the options and arguments that the verb takes."""
    wanted = set()
    for action in actions(verbs()[verb]):
        if "--help" not in action.option_strings:
            value = f" {action.metavar}" if action.metavar and action.option_strings else ""
            wanted |= {f"{name}{value}" for name in action.option_strings or [str(action.metavar)]}
    wanted |= {"-- COMMAND ..."} if verb in ("ssh", "submit") else set()
    items = re.findall(r"^- (.*?):", documented(verb), re.MULTILINE)
    assert {word for item in items for word in re.findall(r"`([^`]+)`", item)} == wanted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_name_exist(page: Path) -> None:
    """A path in backticks that begins with one of our folders is there, so that a move cannot leave a page behind."""
    named = re.findall(r"`((?:components|docs|stacks|tools|tests|playbooks|bench)/[^`<>*\s]*)`", page.read_text())
    missing = [name for name in named if not (ROOT / name).exists() and "NAME" not in name and "STACK" not in name]
    assert not missing
