"""The state of a stack on AWS, and an upgrade of AWS's SDK, from the oldest that the package takes to the one that is
installed."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from stampworks.paths import cache_dir
from stampworks.rehearsal import read_stack, steps
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.servers import Servers

from tools.prepare.progress import run, step
from tools.prepare.python_packages import SYSTEM_CERTIFICATES, ensure_uv

from .conftest import EKS, ROOT

pytestmark = pytest.mark.engine
OLDEST = re.compile(r'"pulumi-aws>=([\d.]+),')
GUARDED = {
    "aws-p5": {"archive", "data", "homes", "head-state"},
    EKS: {"", "data"},
}
"""What is protected of these stacks: of the first the bucket has types of other names in the older SDK, and of the
second nodes are made anew in another way with the newer one."""


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


@pytest.fixture(scope="module", params=GUARDED)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def sdk(stack: str, oldest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs find it before any other, as long as this is there."""
    link = tmp_path_factory.mktemp(stack) / "sdk"
    link.symlink_to(oldest)
    return link


@pytest.fixture(scope="module")
def engine(stack: str, sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Of a stack that was made with it."""
    folder = tmp_path_factory.mktemp("engine")
    with pytest.MonkeyPatch.context() as patch, Servers() as servers:
        patch.setenv("PYTHONPATH", str(sdk), prepend=os.pathsep)
        with servers.serving(Recording({}, lambda: None, io.StringIO())) as ports:
            made = Engine(folder, read_stack(stack, ROOT, ROOT / "stacks", {}), ports)
            try:
                ran = made.run("up", "--yes", "--skip-preview")
                assert ran.code == 0, ran.said
                yield made
            finally:
                made.end()


def test_what_the_state_keeps(engine: Engine, stack: str) -> None:
    """What the engine may not delete AWS keeps, too, when the stack forgets it; but for EKS, which holds no data."""
    resources = state(engine)
    kept = {each["urn"].rpartition("::")[2] for each in resources if each.get("retainOnDelete")}
    guarded = {each["urn"].rpartition("::")[2] for each in resources if each.get("protect") and of_aws(each)}
    assert guarded == {f"{stack}-{name}".rstrip("-") for name in GUARDED[stack]}
    assert guarded - {EKS} <= kept


def test_an_upgrade_changes_nothing(stack: str, sdk: Path, engine: Engine) -> None:
    """Neither what a stack has, nor what anything in it is called; but of EKS, how it makes nodes anew, which the older
    one cannot say."""
    assert major(engine) == 6
    sdk.unlink()
    upgraded = engine.run("up", "--yes", "--skip-preview")
    assert upgraded.code == 0, upgraded.said
    assert major(engine) == 7
    done = {(each.op, each.type.rpartition(":")[2], *(why.path for why in each.why)) for each in steps.steps(upgraded)}
    assert done == ({("update", "NodeGroup", "updateConfig.updateStrategy")} if stack == EKS else set())


def state(engine: Engine) -> list[dict[str, Any]]:
    return list(json.loads(engine.aside("stack", "export"))["deployment"]["resources"])


def of_aws(resource: Mapping[str, Any]) -> bool:
    return str(resource["type"]).startswith("aws:")


def major(engine: Engine) -> int:
    """Of the SDK that the stack was last made with."""
    [version] = {each["inputs"]["version"] for each in state(engine) if each["type"] == "pulumi:providers:aws"}
    return int(version.partition(".")[0])
