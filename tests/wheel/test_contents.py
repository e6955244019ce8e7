"""Contents of the wheel: every file that the code opens, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from stampworks.text.version import VERSION

from tests.wheel.conftest import ROOT, Environment, build

PLUGIN = "stampworks-{version}.data/data/share/stampworks/pulumi-resource-stampworks"
TRAVELLING = {"components/stampworks": "stampworks", "playbooks": "stampworks/playbooks"}
TRAVELLING |= {"workloads": "stampworks/workloads"} if (ROOT / "workloads").is_dir() else {}


def files(wheel: Path) -> dict[str, int]:
    """Return every file and whether it is executable, without the wheel's own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        every = {info.filename: info.external_attr >> 16 & 0o111 for info in archive.infolist()}
    return {name: mode for name, mode in every.items() if ".dist-info/" not in name}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_everything_travels_and_nothing_else(wheel: Path, exported: Path) -> None:
    """The wheel has each file of the folders that the code reads, with its executable bit, and no other folder."""
    plugin = exported / "components" / "stampworks" / "provider" / "plugin"
    wanted = {PLUGIN.format(version=metadata(wheel)["Version"]): 0o111}
    for folder, inside in TRAVELLING.items():
        for path in (exported / folder).rglob("*"):
            if path.is_file() and plugin not in path.parents and "__pycache__" not in path.parts:
                wanted[f"{inside}/{path.relative_to(exported / folder)}"] = path.stat().st_mode & 0o111
    assert files(wheel) == wanted


def test_a_source_distribution_builds_the_same_wheel(wheel: Path, exported: Path, tmp_path: Path) -> None:
    """The wheels are equal byte by byte, so that either can be installed."""
    subprocess.run(["tar", "-xf", build(exported, "sdist"), "-C", tmp_path], check=True, timeout=60)
    [tree] = tmp_path.iterdir()
    assert build(tree, "wheel").read_bytes() == wheel.read_bytes()


def test_ignored_files_stay_out(wheel: Path, exported: Path, tmp_path: Path) -> None:
    """A wheel that is built in a dirty tree is the same."""
    tree = tmp_path / "tree"
    shutil.copytree(exported, tree, ignore=shutil.ignore_patterns("built"))
    for folder in TRAVELLING:
        for name in (".mypy_cache/x.json", "__pycache__/x.pyc"):
            (tree / folder / name).parent.mkdir()
            (tree / folder / name).write_text("x")
    assert build(tree, "wheel").read_bytes() == wheel.read_bytes()


def test_workloads_travel_as_soon_as_they_are_there(exported: Path, tmp_path: Path) -> None:
    """A new folder needs no edit of pyproject.toml."""
    tree = tmp_path / "tree"
    shutil.copytree(exported, tree, ignore=shutil.ignore_patterns("built"))
    (tree / "workloads" / "training").mkdir(parents=True, exist_ok=True)
    (tree / "workloads" / "training" / "a-new-one.py").write_text("")
    assert "stampworks/workloads/training/a-new-one.py" in files(build(tree, "wheel"))


def test_the_metadata(wheel: Path) -> None:
    """An index shows the license text, and a page whose links work without the repository."""
    told = metadata(wheel)
    assert told["Version"] == VERSION
    assert told["License-Expression"] == "Apache-2.0"
    assert told["License-File"] == "LICENSE"
    assert told["Description-Content-Type"] == "text/markdown"
    page = told.get_payload()
    assert isinstance(page, str)
    assert page.startswith("# Stampworks")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


@pytest.mark.parametrize("name", ["python", "python3"])
def test_the_plugin_runs_with_the_interpreter_beside_it(environment: Environment, tmp_path: Path, name: str) -> None:
    """The plugin starts from any folder; an environment may have either name."""
    copy = tmp_path / 'it\'s a "copy"'
    (copy / "bin").mkdir(parents=True)
    (copy / "bin" / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"')
    (copy / "bin" / name).chmod(0o755)
    shutil.copytree(environment.folder / "share", copy / "share")
    plugin = copy / "share" / "stampworks" / "pulumi-resource-stampworks"
    done = subprocess.run([plugin, "127.0.0.1:1"], cwd="/", capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines() == [str(copy / "bin" / name), "-m", "stampworks.provider", "127.0.0.1:1"]


def test_a_plugin_without_its_environment_says_so(environment: Environment, tmp_path: Path) -> None:
    """Rather than run with whichever Python is on PATH."""
    shutil.copytree(environment.folder / "share", tmp_path / "share")
    plugin = tmp_path / "share" / "stampworks" / "pulumi-resource-stampworks"
    done = subprocess.run([plugin], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stderr == f"stampworks: no Python in {tmp_path}: install stampworks into a virtual environment\n"
