"""A package that a bridge creates from another tool's provider: its plugin takes a parameter and has another name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.rehearsal import sdks

from tests.rehearsal.conftest import parsed, phase, project

PLUGIN = {
    "resource": True,
    "name": "terraform-provider",
    "version": "1.5.0",
    "parameterization": {"name": "bridged", "version": "0.6.0", "value": "e30="},
}
SDK = '''\
import pulumi

async def package():
    return await pulumi.runtime.register_package(
        base_provider_name="terraform-provider",
        base_provider_version="1.5.0",
        base_provider_download_url="",
        package_name="bridged",
        package_version="0.6.0",
        base64_parameter="e30=",
    )

@pulumi.input_type
class ResourcesArgs:
    platform: pulumi.Input[str] = pulumi.property("platformName")

@pulumi.input_type
class InstanceArgs:
    resources: pulumi.Input[ResourcesArgs] = pulumi.property("resources")

class Instance(pulumi.CustomResource):
    def __init__(self, name, resources):
        super().__init__("bridged:index/instance:Instance", name, {"resources": resources}, package_ref=package())

MODULES = dict(resource_modules="""
[{"pkg": "bridged", "mod": "index/instance", "fqn": "pulumi_bridged",
  "classes": {"bridged:index/instance:Instance": "Instance"}}]
""")
'''
PROGRAM = """\
import pulumi
import pulumi_bridged

pulumi_bridged.Instance("gpu", {"%s": "gpu-h100"})
"""


@pytest.fixture
def bridged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder with the SDK of a bridged package, which this process and the programs of a rehearsal import."""
    folder = tmp_path / "sdk"
    (folder / "pulumi_bridged").mkdir(parents=True)
    (folder / "pulumi_bridged" / "__init__.py").write_text(SDK)
    (folder / "pulumi_bridged" / "pulumi-plugin.json").write_text(json.dumps(PLUGIN))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    sdks.sdks.cache_clear()
    sdks.classes_of.cache_clear()


def test_a_bridged_package_is_known_by_its_own_name(bridged: Path) -> None:
    sdk = sdks.sdks()["bridged"]
    assert (sdk.package, sdk.plugin, sdk.version) == ("bridged", "terraform-provider", "1.5.0")
    assert set(sdks.classes_of("bridged")) == {"bridged:index/instance:Instance"}


@pytest.mark.engine
def test_its_resources_are_rehearsed(bridged: Path) -> None:
    program = bridged / "__main__.py"
    program.write_text(PROGRAM % "platformName")
    (folder := bridged / "project").mkdir()
    code, out, errors = project(folder, program, "dev", "config: {}\n").rehearse("--json")
    assert code == 0, errors
    found = parsed(out)
    assert found["packages"]["bridged"] == "1.5.0"
    assert [step["type"] for step in phase(found, "up")["steps"]] == ["bridged:index/instance:Instance"]


@pytest.mark.engine
def test_its_wrong_inputs_are_refused(bridged: Path) -> None:
    program = bridged / "__main__.py"
    program.write_text(PROGRAM % "platfromName")
    (folder := bridged / "project").mkdir()
    code, out, errors = project(folder, program, "dev", "config: {}\n").rehearse()
    assert code != 0
    assert "resources.platfromName" in out + errors
    assert "the SDK has no input 'platfromName' here, did you mean 'platformName'?" in out + errors
