"""An upgrade of AWS's SDK, from the oldest that the package takes to the one that is installed: nothing in a stack
changes."""

from __future__ import annotations

import io
import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from stampworks.paths import cache_dir
from stampworks.rehearsal import read_stack, steps
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.servers import Servers

from tools.prepare.progress import run, step
from tools.prepare.python_packages import SYSTEM_CERTIFICATES, ensure_uv

from .conftest import ROOT

pytestmark = pytest.mark.engine
OLDEST = re.compile(r'"pulumi-aws>=([\d.]+),')
STACK = "aws-p5"
"""It has a bucket, whose types have other names in the older SDK."""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That SDK, in a folder by itself."""
    found = OLDEST.search((ROOT / "pyproject.toml").read_text())
    assert found
    folder = tmp_path_factory.mktemp("sdk") / "oldest"
    with step("uv") as shown:
        uv = ensure_uv(shown, cache_dir())
    wanted = [f"pulumi-aws=={found[1]}.*", f"pulumi=={metadata.version('pulumi')}"]
    run([uv, "pip", "install", "--quiet", "--target", folder, *wanted], env=SYSTEM_CERTIFICATES)
    return folder


def test_an_upgrade_changes_nothing(oldest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what a stack has, nor what anything in it is called."""
    monkeypatch.setenv("PYTHONPATH", str(oldest))
    with Servers() as servers, servers.serving(Recording({}, lambda: None, io.StringIO())) as ports:
        engine = Engine(tmp_path, read_stack(STACK, ROOT, ROOT / "stacks", {}), ports)
        try:
            made = engine.run("up", "--yes", "--skip-preview")
            assert made.code == 0, made.said
            assert major(engine) == 6
            oldest.rename(oldest.with_name("gone"))
            upgraded = engine.run("up", "--yes", "--skip-preview")
            assert upgraded.code == 0, upgraded.said
            assert major(engine) == 7
            assert steps.steps(upgraded) == ()
        finally:
            engine.end()


def major(engine: Engine) -> int:
    """Of the SDK that the stack was last made with."""
    resources = json.loads(engine.aside("stack", "export"))["deployment"]["resources"]
    [version] = {each["inputs"]["version"] for each in resources if each["type"] == "pulumi:providers:aws"}
    return int(version.partition(".")[0])
