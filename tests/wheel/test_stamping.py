"""The page's own program, from an empty folder to a cluster and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.wheel.conftest import Environment
from tests.wheel.test_user import BLOCKS, PROGRAM, PROJECT

pytestmark = [pytest.mark.engine, pytest.mark.cluster]

[COMMANDS] = [text for language, text in BLOCKS if language == "sh"]


def test_a_program_of_a_few_lines_stamps_a_cluster(environment: Environment, tmp_path: Path) -> None:
    """The commands of the page, in its order: a cluster comes, runs a job, and goes, without a word of warning."""
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
    finally:
        said = environment.run("bash", "-ec", destroy, **variables)
    assert "warning" not in said
    assert list((tmp_path / "state" / "rooms").glob("[!.]*")) == []
    assert not (environment.project / "pulumi's home" / "plugins").exists()
