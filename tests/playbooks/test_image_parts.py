"""The image of a vendor against the release: the node's facts, and refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils import packaging
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.module_utils.packaging import Apt
from ansible_collections.stampworks.node.plugins.modules import image_parts
from stampworks import catalog

RELEASE = "2026.12-amazon-dlami"
PARTS = {role: dict(parts) for role, parts in catalog.releases()[RELEASE].vendor_images["aws"].parts.items()}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files and programs of a node that has all parts of the release, in forms that AWS's and NVIDIA's installers
    give them."""
    said = {
        Apt.QUERY: "libnccl-ofi installed 1.21.1-1\n"
        "datacenter-gpu-manager-4-core installed 1:4.7.0-1\n"
        "nvidia-container-toolkit installed 1.20.0-1\n",
        ("modinfo", "--field", "version", "efa"): "3.3.0g\n",
        (
            str(tmp_path / "fi_info"),
            "--version",
        ): "libfabric: 2.6.0amzn1.0\nlibfabric api: 2.6\n",
    }

    def fake(argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, 0, said.get(tuple(argv), ""), "")

    for module in (packaging, image_parts):
        monkeypatch.setattr(module, "run", fake)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(packaging, "OS_RELEASE", tmp_path / "os-release")
    for name, path in (("SYS", "module"), ("INSTALLER", "installed"), ("FI_INFO", "fi_info"), ("CUDA", "version.json")):
        monkeypatch.setattr(image_parts, name, tmp_path / path)
    (tmp_path / "module" / "nvidia").mkdir(parents=True)
    (tmp_path / "module" / "nvidia" / "version").write_text("595.91.07\n")
    (tmp_path / "installed").write_text("# EFA installer version: 1.50.0\n# Debug packages installed: no\n")
    (tmp_path / "fi_info").write_text("")
    (tmp_path / "version.json").write_text(json.dumps({"cuda": {"name": "CUDA SDK", "version": "13.2.1"}}))
    return tmp_path


def refusal() -> str:
    with pytest.raises(Refused) as error:
        image_parts.work(False, RELEASE, PARTS)
    return str(error.value)


def test_an_image_with_all_parts_of_the_release(node: Path) -> None:
    """The node stays unchanged."""
    assert node.is_dir()
    assert image_parts.work(False, RELEASE, PARTS) == {"changed": False, "drift": []}


def test_everything_that_differs_is_said_at_once(node: Path) -> None:
    """Each difference is reported with its role and a remedy."""
    (node / "module" / "nvidia" / "version").write_text("595.71.05\n")
    (node / "installed").write_text("# EFA installer version: 1.47.0\n")
    (node / "fi_info").unlink()
    (node / "version.json").write_text("{")
    said = (
        f"driver: nvidia is 595.71.05, release {RELEASE} says 595.91.07; "
        f"efa: efa-installer is 1.47.0, release {RELEASE} says 1.50.0; "
        f"efa: it has no libfabric, release {RELEASE} says 2.6.0amzn1.0; "
        f"nccl: it has no cuda, release {RELEASE} says 13.2"
    )
    assert refusal() == (
        f"the node's image is another one than the release's: {said}: lock the image that the release is of "
        "(stampworks lock), and start the node from it (stampworks roll)"
    )
    assert image_parts.work(True, RELEASE, PARTS) == {"changed": True, "drift": said.split("; ")}


def test_the_image_of_the_distribution(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution's image has none of the parts."""
    nothing = lambda argv, **_: subprocess.CompletedProcess(argv, 1, "", "not found")  # noqa: E731
    for module in (packaging, image_parts):
        monkeypatch.setattr(module, "run", nothing)
    (node / "module" / "nvidia" / "version").unlink()
    for name in ("installed", "version.json"):
        (node / name).unlink()
    assert refusal().count("it has no ") == sum(len(each) for each in PARTS.values())
