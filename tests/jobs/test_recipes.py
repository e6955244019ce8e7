"""The job files of the bundled recipes, against a plan with a user who has a home."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
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


def test_packages_that_came_along(tmp_path: Path) -> None:
    """The environment is made of them once, and the packages of another lock take their place."""
    home, workdir = tmp_path / "home", tmp_path / "workdir"
    (tmp_path / "packed" / "bin").mkdir(parents=True)
    home.mkdir()
    workdir.mkdir()
    make = ["sh", str(RECIPES[0].parents[1] / "environment.sh")]

    def set_up(lock: str) -> None:
        (tmp_path / "packed" / "bin" / "python").write_text(lock)
        (workdir / "requirements.lock").write_text(lock)
        with tarfile.open(workdir / "packages.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "packed", ".")
        subprocess.run(make, cwd=workdir, env={"HOME": str(home), "PATH": os.environ["PATH"]}, check=True)
        assert not (workdir / "packages.tar.gz").exists()

    set_up("first")
    (home / "recipes" / "kept").touch()
    set_up("first")
    assert (home / "recipes" / "kept").exists()
    set_up("second")
    assert not (home / "recipes" / "kept").exists()
    assert (home / "recipes" / "bin" / "python").read_text() == "second"


@pytest.mark.parametrize("words", [[], ["jxa"]])
def test_a_recipe_that_is_missing(words: list[str]) -> None:
    done = subprocess.run([RECIPES[0].parents[1] / "run.sh", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"run.sh: there is no recipe '{''.join(words)}': name a folder of ")


def test_recipes_are_found() -> None:
    assert len(RECIPES) == len([*(ROOT / "workloads" / "recipes").glob("*/README.md")]) > 0
