"""Environments of Python for torch and for the boot software, created with the real pip from empty and real wheels."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.modules import wheels
from stampworks import catalog, configuration
from stampworks.configuration import bundle

pytestmark = pytest.mark.long

ROLES = configuration.playbooks_dir() / "roles"
LOCKS = ROLES / "torch/files"
OF_BOOT = ROLES / "boot/files"


def wheel(folder: Path, name: str, version: str) -> str:
    """Build an empty distribution; return its entry for a lock."""
    file, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{digest}\n"


class Node:
    """The machine of the module: pip's settings name a folder in place of a site's index."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wheels, self.lock, self.directory = folder / "wheels", folder / "lock.txt", folder / "torch"
        settings = folder / "pip.conf"
        settings.write_text(f"[global]\nno-index = true\nfind-links = {self.wheels}\n")
        for variable in [each for each in os.environ if each.startswith("PIP_")]:
            monkeypatch.delenv(variable)  # these override the settings
        monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))

    def has(self, *distributions: tuple[str, str]) -> None:
        self.lock.write_text("".join(wheel(self.wheels, *each) for each in distributions))

    def keep(self, check: bool = False) -> dict[str, Any]:
        return wheels.work(check, str(self.directory), str(self.lock), sys.executable)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path, monkeypatch)
    made.has(("torch", "2.11.0"), ("nvidia_nccl", "2.28.9"))
    return made


def test_installs_the_lock_once(node: Node) -> None:
    assert node.keep(check=True)["drift"] == [
        f"{node.directory}: torch 2.11.0 is not there",
        f"{node.directory}: nvidia-nccl 2.28.9 is not there",
    ]
    assert not node.directory.exists()
    assert node.keep()["changed"]
    found = wheels.there(node.directory / "bin/python3")
    assert (found["torch"], found["nvidia-nccl"]) == ("2.11.0", "2.28.9")
    assert node.keep() == {"changed": False, "drift": []}


def test_another_version_is_found_and_put_right(node: Node) -> None:
    node.keep()
    node.has(("torch", "2.12.0"), ("nvidia_nccl", "2.28.9"))
    said = [f"{node.directory}: torch is 2.11.0, the release has 2.12.0"]
    assert node.keep(check=True)["drift"] == said
    assert node.keep()["drift"] == said
    assert node.keep()["drift"] == []


def test_an_environment_that_does_not_work_is_made_anew(node: Node) -> None:
    """Its creation was killed, or the system's Python was replaced."""
    node.keep()
    (node.directory / "bin/python3").unlink()
    (node.directory / "bin/python3").symlink_to("/nowhere")
    assert node.keep()["changed"]
    assert node.keep()["drift"] == []


def test_another_wheel_of_the_same_name_is_refused(node: Node) -> None:
    """A changed index changes nothing on nodes."""
    file = node.wheels / "torch-2.11.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("torch/__init__.py", "")
    with pytest.raises(Refused, match="THESE PACKAGES DO NOT MATCH THE HASHES") as refusal:
        node.keep()
    assert "torch" in str(refusal.value)
    assert "torch" not in wheels.there(node.directory / "bin/python3")


def test_a_lock_that_says_nothing_is_refused(node: Node) -> None:
    node.lock.write_text("# nothing\n")
    with pytest.raises(Refused, match=r"lock\.txt: names no distribution: it is to have lines like name==version"):
        node.keep()


@pytest.mark.parametrize("release", catalog.releases().values(), ids=lambda release: release.name)
def test_every_release_has_the_lock_of_its_torch(release: catalog.Release) -> None:
    """Each lock has the NVIDIA NCCL of its release; the suite's own NCCL may be newer."""
    version = release.hardware["torch"].packages["torch"]
    locked = dict(wheels.LOCKED.findall((LOCKS / f"torch-{version}.txt").read_text()))
    assert locked["torch"] == version
    assert {"numpy", "fsspec"} <= set(locked)
    entry, nccl, cuda = release.hardware["nccl"], locked["nvidia-nccl-cu13"], locked["cuda-toolkit"].rpartition(".")[0]
    for found in [version for name, version in entry.packages.items() if "nccl" in name]:
        if entry.repository:
            assert found.startswith(f"{nccl}-1+cuda{cuda}")
        else:
            own, of = found.split("-1+cuda")
            assert (numbers(own) >= numbers(nccl), numbers(of)[0]) == (True, numbers(cuda)[0])


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@pytest.mark.long
@pytest.mark.parametrize("lock", sorted(LOCKS.iterdir()), ids=lambda file: file.stem)
def test_the_real_wheels(lock: Path, tmp_path: Path) -> None:
    """All of them come from an index, fit together, and compute on a CPU."""
    wheels.work(False, str(tmp_path / "torch"), str(lock), sys.executable)
    program = """
import fsspec, json, numpy, torch
product = torch.ones(64, 64) @ torch.ones(64, 64)
print(json.dumps([torch.__version__, torch.version.cuda, list(torch.cuda.nccl.version()), product[0, 0].item()]))
"""
    said = subprocess.run(
        [tmp_path / "torch/bin/python3", "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    version, cuda, nccl, product = json.loads(said.stdout)
    locked = dict(wheels.LOCKED.findall(lock.read_text()))
    assert version.partition("+")[0] == locked["torch"]
    assert locked["cuda-toolkit"].startswith(cuda)
    assert (".".join(map(str, nccl)), product) == (locked["nvidia-nccl-cu13"], 64.0)


def test_every_release_has_the_lock_of_its_ansible() -> None:
    """No lock is left over. Each contains the SDK with which a node configures itself."""
    named = {each for release in catalog.releases().values() for each in release.boot if "==" in each}
    locked = {lock: dict(wheels.LOCKED.findall(lock.read_text())) for lock in OF_BOOT.iterdir()}
    assert {f"ansible-core=={each['ansible-core']}" for each in locked.values()} == named
    assert {lock.name for lock in locked} == {f"{each.replace('==', '-')}.txt" for each in named}
    assert all("boto3" in each for each in locked.values())


@pytest.mark.long
@pytest.mark.parametrize("lock", sorted(OF_BOOT.iterdir()), ids=lambda file: file.stem)
def test_the_real_ansible(lock: Path, tmp_path: Path) -> None:
    """Ansible runs a module of the toolkit as on a node that configures itself; the module uses the system's Python."""
    own = tmp_path / "boot/bin/python3"
    wheels.work(False, str(tmp_path / "boot"), str(lock), sys.executable)
    said = subprocess.run([own.with_name("ansible-playbook"), "--version"], capture_output=True, text=True, check=True)
    version = dict(wheels.LOCKED.findall(lock.read_text()))["ansible-core"]
    assert said.stdout.startswith(f"ansible-playbook [core {version}]\n")
    subprocess.run([own, "-sE", "-c", "import boto3"], check=True)
    folder, python = tmp_path / "folder", tmp_path / "system/python3"
    (folder / "pools").mkdir(parents=True)
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/ran\nexec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    (folder / "pools/gpu.yml").write_text(json.dumps({"all": {"vars": variables}}))
    (folder / "secrets.json").write_text("{}")
    (folder / "playbooks").mkdir()
    (folder / "playbooks/collections").symlink_to(configuration.playbooks_dir() / "collections")
    task = {"name": "Look", "check_mode": True, "stampworks.node.wheels": {"directory": "/nowhere", "lock": str(lock)}}
    play = {"name": "It", "hosts": "some", "gather_facts": False, "tasks": [task]}
    (folder / "playbooks/site.yml").write_text(json.dumps([play]))
    program = f"""
import pathlib, runpy, sys
configure = runpy.run_path({str(bundle.CONFIGURE)!r})
assert configure["refuse_older"]() == 0
of = {{"name": "gpu-003", "pool": "gpu"}}
sys.exit(configure["play"](pathlib.Path({str(folder)!r}), of, {{}}, ["some"]))
"""
    done = subprocess.run([own, "-sE", "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=1" in done.stdout
    assert (tmp_path / "ran").read_text().startswith("-IS -c ")
