"""The state of a stack on AWS, and an upgrade of AWS's SDK from the oldest supported to the installed version."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import Lock, LockedImage, load_value, lock_text
from stampworks.planning.build.launching import locked
from stampworks.rehearsal import read_stack, steps
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.scenario import ConfigurationChange
from stampworks.rehearsal.servers import Servers
from stampworks.rehearsal.stack import DECLARED, Stack, changed
from stampworks.state.paths import cache_dir

from tools.prepare.progress import run, step
from tools.prepare.python_packages import SYSTEM_CERTIFICATES, ensure_uv

from .conftest import EKS, ROOT

pytestmark = pytest.mark.engine
OLDEST = re.compile(r'"pulumi-aws>=([\d.]+),')
GUARDED = {
    "aws-p5": {"archive", "data", "homes", "tools", "accounting", "head-state"},
    EKS: {"", "data"},
}
"""Protected resources of these stacks. The first has a bucket, whose types have other names in the older SDK; nodes of
the second are replaced differently by the newer one."""
BLOCKS = "arn:aws:resource-groups:us-east-1:000000000000:group/blocks"
CHANGES = [
    ConfigurationChange("nodes that start with the work", "release", "2026.11"),
    ConfigurationChange("a budget", "budget", {"monthly_usd": 800000, "notify": ["platform@example.com"]}),
    ConfigurationChange("a managed database", "scheduler.database", "managed"),
    ConfigurationChange("people log in", "scheduler.login_nodes", 2),
    ConfigurationChange(
        "storage",
        "storage",
        [
            {
                "name": "data",
                "kind": "fsx-lustre",
                "tier": "PERSISTENT_2 SSD",
                "mbps_per_tib": 250,
                "capacity": 4800,
                "features": ["data-repository"],
                "repository": "archive",
                "mount": "/data",
            },
            {"name": "homes", "kind": "efs", "tier": "regional", "features": ["backups"], "mount": "/home/shared"},
            {
                "name": "tools",
                "kind": "fsx-openzfs",
                "tier": "SINGLE_AZ_2",
                "capacity": 1024,
                "throughput_mbps": 320,
                "mount": "/tools",
            },
            {"name": "archive", "kind": "s3", "mount": "/archive", "expire_days": 90},
        ],
    ),
    ConfigurationChange(
        "pools",
        "pools",
        [
            {"name": "gpu", "machine": "p5", "count": 16, "zone": "us-east-1a"},
            {
                "name": "block",
                "machine": "p5",
                "count": 2,
                "zone": "us-east-1a",
                "purchase": "block",
                "reservation": BLOCKS,
            },
            {
                "name": "more",
                "machine": "m7i",
                "count": 4,
                "count_min": 0,
                "zone": "us-east-1a",
                "fallbacks": [{"purchase": "spot"}],
            },
        ],
    ),
]
"""Changes that give the first stack each kind of resource once."""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the oldest SDK in a separate folder."""
    found = OLDEST.search((ROOT / "pyproject.toml").read_text())
    assert found
    folder = tmp_path_factory.mktemp("sdk") / "oldest"
    with step("uv") as shown:
        uv = ensure_uv(shown, cache_dir())
    wanted = [f"pulumi-aws=={found[1]}.*", f"pulumi=={metadata.version('pulumi')}"]
    run([uv, "pip", "install", "--quiet", "--target", folder, *wanted], env=SYSTEM_CERTIFICATES)
    return folder


@pytest.fixture(scope="module")
def project(stack: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of this project, with looked-up images."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "stacks", folder / "stacks")
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    lock(folder, stack, "ami-00000000000000001")
    return folder


def lock(project: Path, stack: str, image: str, version: str = "v1.0.0-eksbuild.1") -> None:
    """Write a lock with this version for all parts of EKS."""
    plan = planning.plan(load_value(with_all(stack, project).declared, stack))
    found = LockedImage(image, "nodes", "2026-11-20")
    images = {group.launch.published_image: found for group in plan.groups if group.launch}
    parts = {locked(part.name, plan.release): version for part in plan.scheduler.parts}
    text = lock_text(Lock(plan.region, images, parts=parts))
    (project / "stacks" / f"{stack}.lock.json").write_text(text)


def with_all(stack: str, project: Path) -> Stack:
    read = read_stack(stack, project, project / "stacks", {})
    if stack == EKS:
        return read
    config = reduce(partial(changed, read), CHANGES, read.config)
    return replace(read, config=config, declared=config[DECLARED])


@pytest.fixture(scope="module", params=GUARDED)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def sdk(stack: str, oldest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder from which programs import the SDK before any other."""
    link = tmp_path_factory.mktemp(stack) / "sdk"
    link.symlink_to(oldest)
    return link


@pytest.fixture(scope="module")
def engine(stack: str, sdk: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Make a stack with it."""
    folder = tmp_path_factory.mktemp("engine")
    with pytest.MonkeyPatch.context() as patch, Servers() as servers:
        patch.setenv("PYTHONPATH", str(sdk), prepend=os.pathsep)
        with servers.serving(Recording({}, lambda: None, io.StringIO())) as ports:
            made = Engine(folder, with_all(stack, project), ports)
            try:
                ran = made.run("up", "--yes", "--skip-preview")
                assert ran.code == 0, ran.said
                yield made
            finally:
                made.end()


def test_protected_resources_are_retained(engine: Engine, stack: str) -> None:
    """AWS keeps protected resources when the stack forgets them. EKS, which holds no data, is not kept."""
    resources = state(engine)
    kept = {each["urn"].rpartition("::")[2] for each in resources if each.get("retainOnDelete")}
    guarded = {each["urn"].rpartition("::")[2] for each in resources if each.get("protect") and of_aws(each)}
    assert guarded == {f"{stack}-{name}".rstrip("-") for name in GUARDED[stack]}
    assert guarded - {EKS} <= kept


@pytest.mark.parametrize("stack", ["aws-p5"], indirect=True)
@pytest.mark.usefixtures("stack")
def test_a_group_of_blocks_is_known_by_its_arn(engine: Engine) -> None:
    """Nodes start in any block of the group, so that the ends of all blocks are reported."""
    made = [each["inputs"] for each in state(engine) if of_aws(each)]
    [template] = [each for each in made if each.get("instanceMarketOptions") == {"marketType": "capacity-block"}]
    target = template["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationResourceGroupArn": BLOCKS}
    [pattern] = [json.loads(each["eventPattern"]) for each in made if "eventPattern" in each]
    assert {*pattern} == {"source", "detail-type"}


def test_an_upgrade_changes_nothing(stack: str, sdk: Path, engine: Engine) -> None:
    """Resources and names stay; only EKS's settings for replacements change, which the older SDK lacks."""
    assert major(engine) == 6
    sdk.unlink()
    upgraded = engine.run("up", "--yes", "--skip-preview")
    assert upgraded.code == 0, upgraded.said
    assert major(engine) == 7
    done = {(each.op, each.type.rpartition(":")[2], *(why.path for why in each.why)) for each in steps.steps(upgraded)}
    assert done == ({("update", "NodeGroup", "updateConfig.updateStrategy")} if stack == EKS else set())


def test_pools_in_another_order_change_nothing(stack: str, engine: Engine, project: Path) -> None:
    """Other lists may change their order, too."""
    read = with_all(stack, project)
    turned = {key: value[::-1] for key, value in read.declared.items() if key in ("pools", "users", "tags")}
    engine.configure({**read.config, DECLARED: {**read.declared, **turned}})
    ran = engine.run("up", "--yes", "--skip-preview")
    assert ran.code == 0, ran.said
    assert steps.steps(ran) == ()


@pytest.mark.parametrize("stack", [EKS], indirect=True)
def test_parts_of_eks_are_of_the_versions_that_were_looked_up(stack: str, engine: Engine, project: Path) -> None:
    """Another version changes only that part."""
    assert versions(engine) == {"v1.0.0-eksbuild.1"}
    lock(project, stack, "ami-00000000000000001", "v1.0.1-eksbuild.1")
    ran = engine.run("up", "--yes", "--skip-preview")
    assert ran.code == 0, ran.said
    done = [(each.op, each.type.rpartition(":")[2], *(why.path for why in each.why)) for each in steps.steps(ran)]
    assert done == [("update", "Addon", "addonVersion")] * 6
    assert versions(engine) == {"v1.0.1-eksbuild.1"}


@pytest.mark.parametrize("stack", ["aws-p5"], indirect=True)
def test_a_head_from_another_image_has_the_volume_of_the_old_one(stack: str, engine: Engine, project: Path) -> None:
    """The old head is deleted first, because its volume attaches to a single instance. Pools get new templates."""
    lock(project, stack, "ami-00000000000000002")
    volume = [each["id"] for each in state(engine) if each["urn"].endswith(f"::{stack}-head-state")]
    ran = engine.run("up", "--yes", "--skip-preview")
    assert ran.code == 0, ran.said
    done = [(each.op, each.type.rpartition(":")[2]) for each in steps.steps(ran) if each.type.startswith("aws:")]
    assert {*done} == {
        ("replace", "Instance"),
        ("replace", "VolumeAttachment"),
        ("update", "LaunchTemplate"),
        ("update", "Group"),
    }
    assert done.count(("replace", "Instance")) == 1
    assert [each["id"] for each in state(engine) if each["urn"].endswith(f"::{stack}-head-state")] == volume != []


def state(engine: Engine) -> list[dict[str, Any]]:
    return list(json.loads(engine.aside("stack", "export"))["deployment"]["resources"])


def versions(engine: Engine) -> set[str]:
    """Return the versions of EKS's add-ons."""
    return {each["inputs"].get("addonVersion", "") for each in state(engine) if each["type"].endswith(":Addon")}


def of_aws(resource: Mapping[str, Any]) -> bool:
    return str(resource["type"]).startswith("aws:")


def major(engine: Engine) -> int:
    """Return the version of the SDK that wrote the stack last."""
    [version] = {each["inputs"]["version"] for each in state(engine) if each["type"] == "pulumi:providers:aws"}
    return int(version.partition(".")[0])
