"""One declaration on every cloud: planned, or refused with a sentence where the cloud lacks a part; rehearsed where
there are components; and compared as the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from stampworks.cli import exits
from stampworks.cli.main import main
from stampworks.clouds.registry import with_kubernetes
from stampworks.plan import to_json
from stampworks.planning.clouds import CLOUDS

from tests.conformance.clouds import CONFORMING
from tests.docs import one_cluster
from tests.portable import NODES, PARALLEL, declared, planned
from tests.rehearsal.conftest import project
from tests.rehearsed import ROOT

SCHEDULERS = ("slurm", "kubernetes")
REHEARSED = [
    (cloud, scheduler)
    for cloud in CONFORMING
    for scheduler in SCHEDULERS
    if scheduler == "slurm" or cloud in with_kubernetes()
]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_it_is_planned_on_every_cloud(cloud: str, scheduler: str) -> None:
    """Sixteen nodes of the cloud's own machine; without the file system only where the cloud has none."""
    plan, refused = planned(cloud, scheduler)
    assert (plan.cloud, plan.scheduler.kind) == (cloud, scheduler)
    assert [(pool.count, pool.machine.accelerators) for pool in plan.pools] == [(NODES, 8)]
    assert bool(refused) is (cloud not in PARALLEL)
    assert not refused or f" {cloud}" in f" {refused}"
    assert [each.mount for each in plan.storage] == ["/data"] * (not refused)


@pytest.mark.parametrize("cloud", [cloud for cloud in CLOUDS if cloud != one_cluster.REFERENCE])
def test_compare_says_what_the_page_says(cloud: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare two plans in files, as two stacks are compared. No value is shown as code."""
    for name in (one_cluster.REFERENCE, cloud):
        (tmp_path / f"{name}.json").write_text(to_json(planned(name, "slurm")[0]))
    files = [str(tmp_path / f"{name}.json") for name in (one_cluster.REFERENCE, cloud)]
    assert main(["compare", *files]) == exits.NO
    said = capsys.readouterr().out
    for file, name in zip(files, (one_cluster.REFERENCE, cloud), strict=True):
        said = said.replace(file, name)
    [section] = [each for each in one_cluster.PAGE.read_text().split("\n### ") if each.startswith(f"`{cloud}`")]
    lines = [line.removeprefix("- ") for line in section.splitlines() if line.startswith("- ")]
    assert len(lines) > 5
    assert [line for line in lines if f"  {line}\n" not in said] == []
    assert not [line for line in lines if "=" in line]


@pytest.mark.long
@pytest.mark.engine
@pytest.mark.parametrize(("cloud", "scheduler"), REHEARSED)
def test_it_is_rehearsed(cloud: str, scheduler: str, tmp_path: Path) -> None:
    """It comes, stays and goes in the real engine."""
    value = declared(cloud, scheduler, storage=cloud in PARALLEL)
    if cloud == "local" and scheduler == "kubernetes":
        value["pools"][0]["scheduling_only"] = True  # only root divides this machine among pods
    if planned(cloud, scheduler)[0].managed:
        value["proof"] = {"level": "none"}  # its nodes are measured by an image of the user's, and there is none
    config = yaml.safe_dump({"config": {"stampworks:cluster": value}})
    trial = project(tmp_path, ROOT / "stacks" / "__main__.py", "one", config)
    code, text, said = trial.rehearse("--json")
    found = json.loads(text)
    assert (code, found["verdict"]) == (0, "pass"), said
    assert found["types_without_rule"] == []
