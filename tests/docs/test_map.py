"""The map of all pages, their links, and the pages for contributors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stampworks.text.version import VERSION

from tests.docs.pages import DOCS, ROOT, anchors, broken, files, links, markdown

DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
TITLES = {page: page.read_text().splitlines()[0].removeprefix("# ") for page in DECISIONS}


def test_the_map_has_every_page() -> None:
    """Each page below docs/ is linked from docs/index.md once."""
    mapped = [(DOCS / link).resolve() for link in links((DOCS / "index.md").read_text())]
    pages = [page for page in mapped if page.is_relative_to(DOCS)]
    assert sorted(pages) == sorted(page for page in DOCS.rglob("*.md") if page != DOCS / "index.md")


@pytest.mark.parametrize("page", markdown(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Relative links of Markdown pages exist."""
    assert broken(page, page.read_text()) == []


def test_a_broken_link_is_found() -> None:
    """Files and anchors are both looked at, and code is not."""
    text = (
        "[a](index.md) [b](none.md) [c](start/aws.md#cost) [d](start/aws.md#none) [e](https://x.org) "
        "`[f](g.md)`\n```\n[h](i)\n```\n"
    )
    assert broken(DOCS / "index.md", text) == ["none.md", "start/aws.md#none"]
    assert anchors("# One `up`, step by step\n## A-b\n## A-b\n```\n# no\n```\n") == {
        "one-up-step-by-step",
        "a-b",
        "a-b-1",
    }


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_why_and_what_follows(page: Path) -> None:
    """Decisions share their form, and the map names each by its title."""
    text = page.read_text()
    assert re.fullmatch(r"Accepted, in \d+\.\d+\.\d+\.|Replaced by .+\.", text.splitlines()[2])
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert f"- [{TITLES[page]}](decisions/{page.name})\n" in (DOCS / "index.md").read_text()


def test_decisions_are_numbered_without_gaps() -> None:
    """Two branches that use the same number conflict when the second one is merged."""
    assert [page.name[:4] for page in DECISIONS] == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    """ "Unreleased" always comes first."""
    headings = re.findall(
        r"^## \[([^]]+)\](?: - \d{4}-\d{2}-\d{2})?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert headings[:2] == ["Unreleased", VERSION]


def test_the_file_tree_is_current() -> None:
    """Each entry of the tree in CONTRIBUTING.md exists, and the tree has each top-level folder and room."""
    [tree] = re.findall(r"## What is where\n\n```\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    folders: list[str] = []
    named = set()
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.split(r"  ", line.strip())[0].split(", ")
        folders = [*folders[: indent // 2], names[0].rstrip("/")]
        named |= {"/".join([*folders[:-1], name.rstrip("/")]) for name in names}
    known = {name for name in named if "<" not in name}
    assert [name for name in sorted(known) if not (ROOT / name).exists()] == []
    rooms = {each.parent for each in (ROOT / "components/stampworks").glob("*/*.py")}
    tops = {ROOT / file.relative_to(ROOT).parts[0] for file in files() if file.parent != ROOT}
    shown = {folder for name in known for folder in (ROOT / name, *(ROOT / name).parents)}
    assert (rooms | tops) - shown == set()
