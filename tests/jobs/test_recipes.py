"""The job files of the bundled recipes, against a plan with a user who has a home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks import planning
from stampworks.cli import exits
from stampworks.cli.main import main
from stampworks.declaration import load_stack
from stampworks.jobs import read_job, resolve
from stampworks.jobs.checks import problems

from tests.schedulers.schemas import wrong

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "workloads" / "recipes").glob("*/job.yaml"))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.parent.name)
def test_a_recipe_can_be_submitted(file: Path) -> None:
    """No recipe is refused, and its checkpoints are on storage that all nodes share."""
    plan = planning.plan(load_stack("local", ROOT / "stacks"))
    source = read_job(file, {})
    assert [*source.problems, *problems(source, plan, "alice")] == []
    job = resolve(source, plan, "alice", "/shared/runs")
    assert job.checkpoints.startswith("/shared/home/alice/runs/")


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.parent.name)
def test_a_recipe_is_a_jobset(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed JobSet matches JobSet's schema, on two nodes of two."""
    words = ["submit", "-s", "local-k8s", str(file), "--user", "alice"]
    assert main([*words, "--dry-run", "--json"]) == exits.FINE
    printed = json.loads(capsys.readouterr().out)
    manifest = json.loads(printed["files"]["jobset.json"])
    assert wrong(manifest) == []
    assert (manifest["kind"], manifest["metadata"]["annotations"]["stampworks/job"]) == ("JobSet", file.parent.name)
    checkpoints = "/shared/runs/.home.alice/runs/"
    assert f"export CHECKPOINT_PATH={checkpoints}" in printed["files"]["node.sh"]


def test_recipes_are_found() -> None:
    assert len(RECIPES) == len([*(ROOT / "workloads" / "recipes").glob("*/README.md")]) > 0
