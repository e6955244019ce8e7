"""The documentation is complete: every setting, verb, option, output, exit code, role and file."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cluster.component import OUTPUTS

from tests.docs import addons, clouds, commands, machines, one_cluster, policies, roles, rules, settings
from tests.docs.pages import DOCS, ROOT, files

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
REFERENCE = DOCS / "reference"
GENERATED = [
    REFERENCE / f"{name}.md" for name in ("clouds", "machines", "one-cluster", "prices", "roles", "rules", "settings")
]
"""Pages that a program writes; a reader looks things up in them, so that their length does not count."""
THEIRS = {"docs/install.md", "docs/performance.md"}
"""Pages of other projects, which comments cite as sources."""
LINES_MAX, WORDS_MAX = 250, 54_800


def actions(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a verb, and of its actions."""
    nested = [each for action in verb._actions if isinstance(action.choices, dict) for each in action.choices.values()]
    return [*verb._actions, *(action for each in nested for action in actions(each))]


def first_cells(page: Path, heading: str) -> list[str]:
    """Return the words in the first column of a page's table."""
    [table] = re.findall(rf"^\| {heading} \|.*\n\| --- .*\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE)
    return [row.split("|")[1].strip().strip("`") for row in table.splitlines()]


def test_settings_are_current() -> None:
    """docs/reference/settings.md matches the schema; `python -m tests.docs.settings` writes it."""
    assert settings.PAGE.read_text() == settings.page(), "run: python -m tests.docs.settings"


def test_machines_are_current() -> None:
    """docs/reference/machines.md matches the catalog; `python -m tests.docs.machines` writes it."""
    assert machines.PAGE.read_text() == machines.page(), "run: python -m tests.docs.machines"


def test_clouds_are_current() -> None:
    """docs/reference/clouds.md matches the code; `python -m tests.docs.clouds` writes it."""
    assert clouds.PAGE.read_text() == clouds.page(), "run: python -m tests.docs.clouds"


def test_the_cluster_of_every_cloud_is_current() -> None:
    """docs/reference/one-cluster.md is what plans say now; `python -m tests.docs.one_cluster` writes it."""
    assert one_cluster.PAGE.read_text() == one_cluster.page(), "run: python -m tests.docs.one_cluster"


def test_rules_are_current() -> None:
    """docs/reference/rules.md matches the registry; `python -m tests.docs.rules` writes it."""
    assert rules.PAGE.read_text() == rules.page(), "run: python -m tests.docs.rules"


def test_add_ons_are_current() -> None:
    """The table in docs/reference/addons.md matches the catalog; `python -m tests.docs.addons` writes it."""
    assert addons.PAGE.read_text() == addons.page(), "run: python -m tests.docs.addons"


def test_stages_are_current() -> None:
    """docs/reference/roles.md matches the registry; `python -m tests.docs.roles` writes it."""
    assert roles.PAGE.read_text() == roles.page(), "run: python -m tests.docs.roles"


def test_verbs_are_current() -> None:
    """The table in docs/reference/commands.md matches the parser; `python -m tests.docs.commands` writes it."""
    assert commands.PAGE.read_text() == commands.page(), "run: python -m tests.docs.commands"


def test_policies_are_current() -> None:
    """`python -m tests.docs.policies` writes them."""
    for name, document in policies.policies().items():
        assert (policies.FOLDER / name).read_text() == policies.text(document), name


def test_every_verb_has_a_section_and_no_other_has() -> None:
    """Verbs of the parser and sections of the pages are the same."""
    found = [name for page in commands.PAGES for name in re.findall(r"^## stampworks (.+)$", page.read_text(), re.M)]
    assert sorted(found) == sorted(commands.verbs())


@pytest.mark.parametrize("verb", commands.verbs())
def test_every_option_is_documented_and_no_other_is(verb: str) -> None:
    """A section lists exactly the options and arguments of its verb."""
    wanted = set()
    for action in actions(commands.verbs()[verb]):
        if "--help" not in action.option_strings:
            value = f" {action.metavar}" if action.metavar and action.option_strings else ""
            wanted |= {f"{name}{value}" for name in action.option_strings or [str(action.metavar)]}
    wanted |= {"-- COMMAND ..."} if verb in ("ssh", "submit") else set()
    items = re.findall(r"^- (.*?):", commands.sections()[verb][1], re.MULTILINE)
    assert {word for item in items for word in re.findall(r"`([^`]+)`", item)} == wanted


def test_every_exit_code_is_documented() -> None:
    """The table has the exit codes of the command line."""
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in first_cells(REFERENCE / "exit-codes.md", "code")} == codes


def test_every_output_is_documented() -> None:
    """The table has the outputs of the component, and of the program of this repository."""
    documented = first_cells(REFERENCE / "outputs.md", "output")
    program = ast.parse((ROOT / "stacks" / "__main__.py").read_text())
    exported = {
        call.args[0].value
        for call in ast.walk(program)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "pulumi.export"
        and isinstance(call.args[0], ast.Constant)
    }
    assert set(documented) == set(OUTPUTS) == exported
    assert len(documented) == len(OUTPUTS)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in GENERATED], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= LINES_MAX


def test_the_documentation_is_short() -> None:
    """The limit counts words of the README and of written pages, without decisions."""
    written = [page for page in DOCS.rglob("*.md") if page not in GENERATED and page.parent.name != "decisions"]
    assert sum(len(page.read_text().split()) for page in [ROOT / "README.md", *written]) <= WORDS_MAX


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_name_exist(page: Path) -> None:
    """A path in backticks that begins with a folder of the project exists, so that a moved file is noticed."""
    named = re.findall(r"`((?:components|docs|stacks|tools|tests|playbooks|bench)/[^`<>*\s]*)`", page.read_text())
    missing = [name for name in named if not (ROOT / name).exists() and "NAME" not in name and "STACK" not in name]
    assert not missing


def test_pages_that_code_names_exist() -> None:
    """Hints, comments, workflows and generators name pages that are there."""
    named = {
        (file.relative_to(ROOT).as_posix(), name)
        for file in files()
        if file.suffix in (".py", ".sh", ".yml", ".yaml", ".json", ".toml", ".txt", "")
        for name in re.findall(r"(?<![\w./-])docs/[a-z0-9/-]+\.(?:md|json)\b", file.read_text(errors="replace"))
        if name not in THEIRS
    }
    assert len(named) > 30
    assert sorted((file, name) for file, name in named if not (ROOT / name).exists()) == []
