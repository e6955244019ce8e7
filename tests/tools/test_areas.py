"""Long tests of an area, and areas that a change reaches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import areas, import_graph, suites


def test_every_long_test_has_an_area() -> None:
    """A file of long tests that no area has would run in no campaign by area."""
    files = areas.long_files()
    assert [file for file, area in files.items() if not area] == []
    assert set(files.values()) == set(areas.AREAS), "an area without tests"


@pytest.mark.parametrize(
    ("file", "reached", "spared"),
    [
        ("playbooks/roles/lustre_efa/tasks/main.yml", {"playbooks", "machines", "kubernetes"}, {"planning", "aws"}),
        ("workloads/training/agent.py", {"training"}, {"planning", "playbooks"}),
        ("tests/machines/test_instances.py", {"machines"}, {"training", "planning"}),
        ("components/stampworks/clouds/aws/bucket.py", {"aws", "rehearsal"}, {"training", "kubernetes", "planning"}),
        ("components/stampworks/machine_room/network.py", {"kills", "kubernetes", "proof"}, {"planning"}),
        ("components/stampworks/planning/fat_tree/dumps.py", {"planning"}, {"training"}),
        ("docs/index.md", {"docs"}, {*areas.AREAS} - {"docs"}),
    ],
)
def test_a_change_reaches_the_areas_that_depend_on_it(file: str, reached: set[str], spared: set[str]) -> None:
    """Dependencies are imports, programs that tests start, and files other than Python."""
    found = {one.area for one in areas.affected([file])}
    assert reached <= found
    assert not spared & found


def test_each_area_says_by_which_way_it_is_reached() -> None:
    """The chain of imports from a test or a program to the changed file, and for other files that they belong to it."""
    ways = {one.area: one.way for one in areas.affected(["components/stampworks/planning/fat_tree/dumps.py"])}
    assert ways["planning"].startswith("tests.planning.")
    assert ways["planning"].endswith(" > it")
    [files] = {one.way for one in areas.affected(["playbooks/site.yml"])}
    assert files == "its tests depend on files of this kind"


def test_chains_are_shortest() -> None:
    """A module is reached by the fewest imports, and a circle ends."""
    edges = {"a": {"b", "c"}, "b": {"c", "a"}, "c": {"d"}, "d": set(), "e": {"a"}}
    assert import_graph.chains(edges, ["a", "unknown"]) == {
        "a": ("a",),
        "b": ("a", "b"),
        "c": ("a", "c"),
        "d": ("a", "c", "d"),
    }


def test_an_import_for_types_alone_is_none(tmp_path: Path) -> None:
    """Parents of a module run with it, and so do imports in functions; imports for type checkers do not."""
    for name, text in {
        "components/p/__init__.py": "",
        "components/p/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import b\nimport p.c\n",
        "components/p/b.py": "",
        "components/p/c.py": "def f():\n    from . import b\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert import_graph.graph(tmp_path) == {
        "p": frozenset(),
        "p.a": {"p", "p.c"},
        "p.b": frozenset(),
        "p.c": {"p", "p.b"},
    }


def test_the_base_is_the_upstream_else_a_tag_else_the_commit_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(areas, "ROOT", tmp_path)
    git("init", "--initial-branch=main")
    for message in ("first", "second"):
        git("commit", "--allow-empty", "-m", message)
    assert areas.default_base() == "HEAD~1"
    git("tag", "v0")
    assert areas.default_base() == "v0"
    (tmp_path / "new.txt").write_text("")
    assert areas.changed("v0") == ["new.txt"]


def test_an_area_that_does_not_exist_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["areas", "--area", "nothing"])
    assert areas.main() == 2
    assert "no area nothing\n  hint: areas are kubernetes, proof," in capsys.readouterr().err


def test_an_area_runs_its_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    def run(words: list[str]) -> int:
        called.append(words)
        return 0

    monkeypatch.setattr(suites, "main", run)
    monkeypatch.setattr("sys.argv", ["areas", "--area", "machines", "-x"])
    assert areas.main() == 0
    assert called == [["-n", "0", "-m", areas.LONG, "-x", "tests/machines/test_instances.py"]]
