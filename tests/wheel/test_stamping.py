"""The page's own program, from an empty folder to a cluster and back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.wheel.conftest import Environment
from tests.wheel.test_user import CHECK, COMMANDS, EXTRAS, PROGRAM, PROJECT, ROLE

pytestmark = [pytest.mark.engine, pytest.mark.cluster, pytest.mark.long]


def test_a_program_of_a_few_lines_stamps_a_cluster(environment: Environment, tmp_path: Path) -> None:
    """The commands of the page, in order: a cluster is created, runs a job, and is destroyed without a warning."""
    (environment.project / "Pulumi.yaml").write_text(PROJECT)
    (environment.project / "__main__.py").write_text(PROGRAM)
    (tmp_path / "backend").mkdir()
    *use, destroy = COMMANDS.splitlines()
    variables = {
        # the engine of the clone, if it is one, and nothing else of the clone
        "PATH": os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if one != f"{sys.prefix}/bin"),
        "PULUMI_HOME": str(environment.project / "pulumi's home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "STAMPWORKS_STATE": str(tmp_path / "state"),
    }
    try:
        said = environment.run("bash", "-ec", "\n".join(use), **variables)
        assert "warning" not in said
        assert "cluster demo on local: pass" in said
        assert sorted(said.splitlines()[-2:]) == ["gpu-001", "gpu-002"]
        add_role_and_check(environment, variables)
        said = environment.run("bash", "-ec", destroy, **variables)
    finally:
        # There is a room only if a step above has failed.
        found = json.loads(environment.run("stampworks", "sweep", "--json", **variables))["rooms"]
        for one in found:
            environment.run("stampworks", "sweep", one["cluster"], "--yes", **variables)
    assert "warning" not in said
    assert list((tmp_path / "state" / "rooms").glob("[!.]*")) == []
    assert not (environment.project / "pulumi's home" / "plugins").exists()


def add_role_and_check(environment: Environment, variables: dict[str, str]) -> None:
    """The role runs on every node; the check drains a node that has lost its effect, with the check's text."""
    head, _, rest = PROGRAM.partition("declaration = ")
    _, _, tail = rest.partition("\n)\n")
    files = {"__main__.py": head + EXTRAS + tail, "roles/datasets/tasks/main.yml": ROLE, "checks/datasets.sh": CHECK}
    for name, text in files.items():
        (environment.project / name).parent.mkdir(parents=True, exist_ok=True)
        (environment.project / name).write_text(text)
    said = environment.run("pulumi", "up", "--yes", "--skip-preview", **variables)
    assert "~ 1 updated" in said
    assert "warning" not in said
    on_node = ("stampworks", "ssh", "-s", "plan.json", "gpu-002", "--")
    assert environment.run(*on_node, "stat", "-c", "%a", "/datasets", **variables) == "1777\n"
    environment.run(*on_node, "rmdir /datasets; ! stampworks-health", **variables)
    reason = environment.run(*on_node, "scontrol", "show", "node", "gpu-002", **variables)
    assert "DRAIN" in reason
    assert "Reason=health: datasets: /datasets is not there [" in reason
    environment.run(*on_node, "mkdir /datasets; stampworks-health", **variables)
    # slurmctld counts a returned node as silent until it has asked it
    well = "for _ in $(seq 60); do stampworks status -s plan.json && exit; sleep 1; done; exit 1"
    assert "cluster demo on local: pass" in environment.run("bash", "-c", well, **variables)
