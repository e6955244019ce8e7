"""Decisions of modules on packages: recorded, installed and pinned ones, and loaded kernel modules."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils import packaging
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.module_utils.packaging import Apt, Dnf
from ansible_collections.stampworks.node.plugins.modules import (
    kernel_module,
    node_facts,
    packages,
    pinned,
)
from stampworks.configuration.player import TASK_LIMIT_S

# --- packages

NOTED = {"slurmd": "24.11.5", "iperf3": "3.18", "munge": "0.5", "ethtool": "6.14"}


def test_packages_that_are_not_as_in_the_image_are_said() -> None:
    """Packages may be missing, broken or of another version; packages that a person added are ignored."""
    found = {
        "slurmd": ("installed", "23.2"),
        "iperf3": ("config-files", "3.18"),
        "munge": ("half-configured", "0.5"),
        "vim": ("installed", "9"),
    }
    assert list(packages.differences(NOTED, found).values()) == [
        "package slurmd is 23.2, the image had 24.11.5",
        "package iperf3 is missing",
        "package munge is half-configured",
        "package ethtool is missing",
    ]


@pytest.fixture
def dpkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """State of dpkg, a package on each line; commands that change packages are appended."""
    known = ["slurmd installed 24.11.5", "iperf3 deinstalled 3.18"]

    def fake(argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if argv != Apt.QUERY:
            known.append(" ".join(argv))
        return subprocess.CompletedProcess(argv, 0, "\n".join(known), "")

    monkeypatch.setattr(packaging, "run", fake)
    monkeypatch.setattr(packaging, "OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(packages, "RECORD", tmp_path / "packages.json")
    monkeypatch.setattr(Apt, "LISTS", tmp_path)
    return known


def test_records_packages_of_the_repository(dpkg: list[str], tmp_path: Path) -> None:
    """Other packages could not be reinstalled from it, and are left out."""
    (tmp_path / "x_Packages").write_text("Package: slurmd\nVersion: 24.11.5\n\nPackage: iperf3\n")
    dpkg.append("base-files installed 13")
    assert packages.answer({"record": True}, True)["changed"]
    assert not (tmp_path / "packages.json").exists()
    assert packages.answer({"record": True}, False)["changed"]
    assert (tmp_path / "packages.json").read_text() == '{\n "slurmd": "24.11.5"\n}'
    assert not packages.answer({"record": True}, False)["changed"]


def test_only_what_differs_is_installed_again(dpkg: list[str], tmp_path: Path) -> None:
    """The version is that of the image; a check installs nothing."""
    (tmp_path / "packages.json").write_text('{"slurmd": "24.11.5", "iperf3": "3.18"}')
    assert packages.answer({"record": False}, True)["drift"] == ["package iperf3 is deinstalled"]
    assert len(dpkg) == 2
    result = packages.answer({"record": False}, False)
    assert dpkg[2] == "dpkg --force-confold --configure -a", "what was interrupted is ended first"
    assert dpkg[3] == "apt-get update --quiet"
    assert dpkg[4].endswith(" iperf3=3.18")
    assert result["msg"] == "after an installation: package iperf3 is deinstalled"


def test_lists_that_somebody_else_reads_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """apt gives up at once, and a machine that has just booted may hold the lock. Other errors are reported at once."""
    said = ["E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"] * 3
    clock = [0.0]

    def fake(argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        why = said.pop(0) if said and argv[0] == "apt-get" else ""
        return subprocess.CompletedProcess(argv, 100 if why else 0, "", why)

    monkeypatch.setattr(packaging, "run", fake)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    Apt().refresh()
    assert (said, clock) == ([], [3.0])
    said += ["E: no route to the repository"]
    with pytest.raises(Refused, match=r"^apt-get update --quiet: exit code 100: E: no route to the repository$"):
        Apt().refresh()
    said += ["E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"] * 200
    with pytest.raises(Refused, match="held by process 7"):
        Apt().refresh()
    assert clock[0] < 2 * packaging.LISTS_S


@pytest.mark.parametrize("system", ["debian", "amzn"])
def test_an_installation_says_itself_that_it_takes_too_long(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All commands together take less time than the player allows for a task."""
    limits: list[float] = []

    def fake(argv: list[str], timeout: float = 60, **_: Any) -> subprocess.CompletedProcess[str]:
        limits.append(timeout)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(packaging, "run", fake)
    monkeypatch.setattr(packaging, "OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(Dnf, "LOCKS", tmp_path / "versionlock.list")
    (tmp_path / "os-release").write_text(f'ID="{system}"\n')
    monkeypatch.setattr(packages, "RECORD", tmp_path / "packages.json")
    (tmp_path / "packages.json").write_text('{"slurmd": "24.11.5"}')
    assert packages.answer({"record": False}, False)["failed"]
    assert sum(limits) < TASK_LIMIT_S


def test_a_node_without_a_record_is_unknown(dpkg: list[str]) -> None:
    """The packages that belong to the image cannot be known."""
    assert dpkg
    (word,) = packages.answer({"record": False}, True)["drift"]
    assert word.startswith("unknown: which packages belong here: there is no ")


# -- pinned, kernel_module


@pytest.mark.parametrize(
    ("version", "beginning", "is_one"),
    [
        ("580.159.04-1", "580.159.04", True),
        ("1:4.6.0-1", "4.6.0", True),
        ("1:4.6.0-1", "1:4.6.0", True),
        ("4.6.0-1", "1:4.6.0", False),
        ("6.12.43+deb13-cloud-amd64", "6.12", True),
        ("6.120.1", "6.12", False),
        ("580.159.041-1", "580.159.04", False),
        ("2.7.0amzn20.0", "2.7.0amzn2", False),
        ("570.1-1", "580", False),
        ("3.3.1g", "3.3.1", True),
        ("anything", "", True),
    ],
)
def test_a_version_is_one_of_a_series(version: str, beginning: str, is_one: bool) -> None:
    """The release decides how exactly; epochs are Debian's, and a letter is added by EFA's module."""
    assert packaging.begins(version, beginning) is is_one


def test_reads_versions_in_repositories() -> None:
    """Sources are none of it."""
    said = " efa | 3.3.1-1 | file:/a ./ Packages\n efa | 3.2-1 | file:/a ./ Packages\n efa | 9 | file:/a ./ Sources\n"
    assert Apt.of_madison(said) == {"efa": ["3.3.1-1", "3.2-1"]}


def test_a_kernel_of_amazon_linux_is_called_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several are there at once, and its first kernel has names without a series."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    exactly = "6.12.77-99.140.amzn2023"
    rows = f"kernel6.12 1:{exactly}\nkernel6.12 1:6.12.9-1\nkernel-livepatch-6.12 0:1-2\nefa 0:3.3.1-1\n"
    monkeypatch.setattr(packaging, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, rows, ""))
    found = Dnf().installed()
    assert {name: version for name, (_, version) in found.items()} == {
        f"kernel6.12-{exactly}": f"1:{exactly}",
        "kernel6.12-6.12.9-1": "1:6.12.9-1",
        "kernel-livepatch-6.12": "1-2",
        "efa": "3.3.1-1",
    }
    assert [name for name in found if Dnf().is_kernel(name)] == [f"kernel6.12-{exactly}", "kernel6.12-6.12.9-1"]
    built_with = [f"kernel6.12-devel-{exactly}", f"kernel6.12-modules-extra-{exactly}"]
    assert Dnf().for_kernel(f"{exactly}.x86_64") == built_with
    assert all(Dnf().is_kernel(name) for name in built_with)
    assert Dnf().for_kernel("6.1.166-197.305.amzn2023.x86_64")[0] == "kernel-devel-6.1.166-197.305.amzn2023"


def test_pins_of_a_role_leave_those_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of users stay, too; a version may have an epoch, and a part behind a hyphen."""
    monkeypatch.setattr(Dnf, "LOCKS", tmp_path / "versionlock.list")
    monkeypatch.setattr(packaging, "write", lambda path, text: path.write_bytes(text))
    Dnf.LOCKS.write_text("mine-0:1-1.*\n")
    Dnf().pin("a", {"one": "1:4.6.0", "free": ""}, ["*one*"])
    Dnf().pin("b", {"two": "2.28.9-1+cuda13.0"}, [])
    Dnf().pin("a", {"one": "5"}, [])
    assert Dnf.LOCKS.read_text().splitlines() == [
        "mine-0:1-1.*",
        "# Written by Stampworks: pins of b",
        "two-2.28.9-1+cuda13.0*",
        "# Written by Stampworks: end of b",
        "# Written by Stampworks: pins of a",
        "one-5*-*",
        "# Written by Stampworks: end of a",
    ]
    assert Dnf().unpinned("a", {"one": "5"}, []) == Dnf().unpinned("b", {"two": "2.28.9-1+cuda13.0"}, []) == []
    assert Dnf().unpinned("a", {"one": "6"}, []) == [f"{Dnf.LOCKS} has no pins of a"]


def test_differences_from_the_release() -> None:
    """Packages are missing, half there, or of another version; packages of the suite may have any."""
    found = {
        "a": ("installed", "2-1"),
        "b": ("half-installed", "1"),
        "c": ("installed", "9"),
        "e": ("config-files", "1"),
    }
    assert list(pinned.differences({"a": "1", "b": "1", "c": "", "d": "1", "e": "1"}, found).values()) == [
        "package a is 2-1, the release says 1",
        "package b is half-installed",
        "package d is missing",
        "package e is missing",
    ]


def test_other_software_is_refused_and_missing_software_is_not() -> None:
    """A role installs missing software; no running software is replaced."""
    facts = {"kernel": "6.1.0-9", "packages": {"driver": "570.1-1", "manager": "580.2-1"}}
    roll = "start the node from an image of the release (stampworks roll)"
    assert node_facts.strange_software(facts, {"driver": "580.1", "manager": "580.2", "absent": "1"}, "6.12") == [
        f"runs kernel 6.1.0-9, the release builds its modules for 6.12: {roll}",
        f"package driver is 570.1-1, the release says 580.1: {roll}",
    ]
    assert node_facts.strange_software(facts, {}, "6.12") == []


def test_a_module_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is loaded once. Another loaded version is recorded and reported until it is gone; check mode records
    nothing."""
    modules, marks, commands = tmp_path / "modules", tmp_path / "reboot", []

    def load(argv: list[str]) -> None:
        commands.append(argv)
        (modules / "efa").mkdir(parents=True)

    def note(path: Path, text: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)

    monkeypatch.setattr(kernel_module, "SYS", modules)
    monkeypatch.setattr(kernel_module, "MARKS", marks)
    monkeypatch.setattr(kernel_module, "ASKED", tmp_path / "asked")
    monkeypatch.setattr(kernel_module, "write", note)
    monkeypatch.setattr(kernel_module, "run", load)
    call = {"name": "efa", "module": "efa", "version": "3.3.1"}
    words = "module efa of the kernel itself is loaded, the release says 3.3.1"
    assert kernel_module.answer(call, True) == {"changed": True, "drift": ["module efa is not loaded"]}
    assert (commands, marks.exists()) == ([], False)
    assert kernel_module.answer(call, False) == {"changed": True, "drift": [words]}
    assert commands == [["modprobe", "efa"]]
    assert kernel_module.answer(call, False) == {"changed": False, "drift": [words]}
    assert (marks / "efa").read_text() == words
    (marks / "efa").unlink()  # the node was restarted, without effect
    refusal = f"{words}, also since the node was started anew: see dkms status and dmesg on it"
    assert kernel_module.answer(call, False) == {"changed": False, "failed": True, "msg": refusal}
    assert kernel_module.answer(call, True) == {"changed": True, "drift": [words]}
    assert kernel_module.answer(call | {"version": "3.4"}, False)["changed"], "another reason is another start"
    assert kernel_module.answer(call, False)["drift"] == [words]
    (modules / "efa/version").write_text("3.3.1\n")
    left = ["module efa is right, and the note that the node must be started anew is left over"]
    assert kernel_module.answer(call, True) == {"changed": True, "drift": left}
    assert kernel_module.answer(call, False) == {"changed": True, "drift": left}
    assert not (marks / "efa").exists()
    assert kernel_module.answer(call, True) == kernel_module.answer(call, False) == {"changed": False, "drift": []}
