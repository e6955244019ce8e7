"""The review of a recorded change of every stack of this repository, as data and as text.

A stack without a recorded change is reviewed as new. `pytest tests/cli/test_reviews.py --regenerate` writes the reviews
again: review their difference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stampworks.cli.main import main

from tests.planning.test_golden import ROOT, STACKS, check

GOLDEN = Path(__file__).parent / "golden"
EDITS: dict[str, list[tuple[str, str, str]]] = {
    "local": [
        ("Pulumi.local.yaml", "count: 4", "count: 6"),
        ("Pulumi.local.yaml", "drain_timeout_minutes: 10", "drain_timeout_minutes: 20"),
        ("Pulumi.local.yaml", "mount: /shared,", "mount: /data,"),
        ("Pulumi.local.yaml", "rail_rate_mbps: 200", "rail_rate_mbps: 400"),
    ],
    "local-accounting": [
        ("Pulumi.local-accounting.yaml", "machine: sim-a100-small", "machine: sim-h100"),
        ("Pulumi.local-accounting.yaml", "count: 4", "count: 8"),
        ("Pulumi.local-accounting.yaml", "oversubscription: 2", "oversubscription: 4"),
        ("Pulumi.local-accounting.yaml", "time_limit_minutes: 240", "time_limit_minutes: 480"),
    ],
}
"""Edits of each change: file, old, new."""


def git(folder: Path, *argv: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *argv]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stack with a repository in which it was changed between the revisions `base` and `head`."""
    name = str(request.param)
    for variable in [each for each in os.environ if each.startswith("GIT_")]:
        monkeypatch.delenv(variable)
    folder = tmp_path / "repository"
    folder.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    shutil.copytree(ROOT / "stacks", folder / "stacks")
    file = folder / "stacks" / f"Pulumi.{name}.yaml"
    before = file.read_text()
    if name not in EDITS:
        file.unlink()
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "base")
    git(folder, "tag", "base")
    if name not in EDITS:
        file.write_text(before)
    for edited, old, new in EDITS.get(name, []):
        text = (folder / "stacks" / edited).read_text()
        assert old in text, f"{edited} has no {old!r} any more: record another change"
        (folder / "stacks" / edited).write_text(text.replace(old, new, 1))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "head")
    git(folder, "tag", "head")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("stampworks.state.facts.today", lambda: "2026-11-22")  # prices age, what was recorded does not
    return name


@pytest.mark.parametrize(("form", "ending"), [("markdown", "md"), ("json", "json")])
def test_review_of_a_stack(
    stack: str, form: str, ending: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """The output of `stampworks review` equals the reviewed file."""
    main(["review", "--base", "base", "--head", "head", "-s", stack, "--format", form])
    check(GOLDEN / f"{stack}.{ending}", capsys.readouterr().out, bool(request.config.getoption("--regenerate")))


def test_no_golden_review_is_left_over() -> None:
    """Each golden file belongs to a stack."""
    assert sorted(file.stem for file in GOLDEN.iterdir()) == sorted([*STACKS, *STACKS])
