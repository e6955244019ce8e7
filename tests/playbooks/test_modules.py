"""The decisions of the other modules, which need no node."""

from __future__ import annotations

import pwd
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.action import node_facts as action
from ansible_collections.stampworks.node.plugins.module_utils import packaging, tables
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run
from ansible_collections.stampworks.node.plugins.module_utils.packaging import Apt, Dnf
from ansible_collections.stampworks.node.plugins.modules import (
    accounts,
    kernel_module,
    mounts,
    node_facts,
    packages,
    pinned,
    slurm_accounting,
    slurm_cached,
    slurm_controller,
    slurm_ready,
)
from stampworks.configuration.player import TASK_LIMIT_S
from stampworks.operations.drain import LEAVES, RENEWED
from stampworks.reasons import prefix, written

# --- what all modules share


def test_what_a_command_said_is_in_the_error() -> None:
    """With its exit code and itself."""
    with pytest.raises(Refused, match=r"^sh -c echo no >&2; exit 4: exit code 4: no$"):
        run(["sh", "-c", "echo no >&2; exit 4"])


def test_a_missing_program_is_said_with_the_cause() -> None:
    """Nodes get their programs from the image."""
    with pytest.raises(Refused, match="no-such-program: not installed on this node: was its image built by the same"):
        run(["no-such-program"])


def test_a_command_that_hangs_is_ended() -> None:
    """Nothing on a node may keep a run from ending."""
    with pytest.raises(Refused, match=r"sleep 9: no answer within 0\.1 s"):
        run(["sleep", "9"], timeout=0.1)


def test_a_refusal_is_an_answer() -> None:
    """A module fails with its message, not with a traceback; in check mode it is one more thing that was found."""

    def work(check: bool) -> dict[str, Any]:
        raise Refused("no")

    assert answering(work)({}, False) == {"changed": False, "failed": True, "msg": "no"}
    assert answering(work)({}, True) == {"changed": True, "drift": ["unknown: no"]}


# --- mounts

SHARED = {"source": "/exports/shared", "path": "/shared", "type": "none", "options": "bind"}
OTHERS = "UUID=1 / ext4 defaults 0 1\n"


def test_fstab_keeps_the_lines_of_others() -> None:
    """Only what stands between our marks is ours."""
    text, gone = mounts.OURS.put(OTHERS, [mounts.fstab_line(SHARED)])
    assert text == f"{OTHERS}{mounts.OURS.begin}/exports/shared /shared none bind 0 0\n{mounts.OURS.end}"
    assert gone == []
    assert mounts.OURS.put(text, [mounts.fstab_line(SHARED)]) == (text, [])
    assert mounts.OURS.put(text + "tmpfs /x tmpfs\n", []) == (OTHERS + "tmpfs /x tmpfs\n", ["/shared"])


def test_fstab_without_a_last_newline_stays_readable() -> None:
    """Our first mark gets a line of its own."""
    text, _ = mounts.OURS.put("a b c", [mounts.fstab_line(SHARED)])
    assert text.startswith(f"a b c\n{mounts.OURS.begin}")


@pytest.mark.parametrize("path", ["/my data", "/tab\there", "/back\\slash", "/a#b", "/plain", "/040"])
def test_paths_with_blanks_survive_fstab(path: str) -> None:
    """fstab and mountinfo write them in octal."""
    (word,) = mounts.fstab_line({**SHARED, "path": path}).split()[1:2]
    assert tables.unescaped(word) == path
    assert tables.mount_points(f"1 0 0:1 / {word} rw - tmpfs tmpfs rw") == {path}


def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: str, check: bool = False) -> tuple[Any, list[str]]:
    commands: list[str] = []
    monkeypatch.setattr(mounts, "FSTAB", tmp_path / "fstab")
    monkeypatch.setattr(mounts, "MOUNTINFO", tmp_path / "mountinfo")
    monkeypatch.setattr(mounts, "run", lambda argv: commands.append(" ".join(argv)))
    (tmp_path / "mountinfo").write_text("".join(f"1 0 0:1 / {path} rw - x x rw\n" for path in mounted.split()))
    wanted = {**SHARED, "source": str(tmp_path), "path": str(tmp_path / "here")}
    return mounts.answer({"mounts": [wanted]}, check), commands


def test_a_missing_mount_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when fstab is right already."""
    result, commands = mount(tmp_path, monkeypatch, "/")
    assert result["changed"]
    assert commands == [f"mount {tmp_path}/here"]
    result, commands = mount(tmp_path, monkeypatch, f"/ {tmp_path}/here")
    assert not result["changed"]
    assert commands == []
    assert mount(tmp_path, monkeypatch, "/")[0]["mounted"] == [f"{tmp_path}/here"]


def test_checking_mounts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run says what it would mount."""
    result, commands = mount(tmp_path, monkeypatch, "/", check=True)
    assert (result["changed"], commands, (tmp_path / "fstab").exists()) == (True, [], False)


def test_a_missing_source_is_said() -> None:
    """With what to look at."""
    with pytest.raises(Refused, match="/shared: there is no /not/there on this node to mount: is its storage declared"):
        mounts.mount_now({**SHARED, "source": "/not/there"})


def test_a_busy_mount_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be unmounted stays in fstab until it was: the next run finds it there."""
    mount(tmp_path, monkeypatch, f"/ {tmp_path}/here")
    commands: list[list[str]] = []

    def busy(argv: list[str]) -> None:
        commands.append(argv)
        raise Refused("target is busy")

    monkeypatch.setattr(mounts, "run", busy)
    for _ in range(2):
        assert mounts.answer({"mounts": []}, False)["failed"]
    assert commands == [["umount", f"{tmp_path}/here"]] * 2


# --- accounts


def entry(name: str, uid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh"))


def test_a_number_is_never_taken_over() -> None:
    """All conflicts at once, each with both sides."""
    present = {"alice": entry("alice", 2009), "carol": entry("carol", 2002)}
    users = [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}, {"name": "dave", "uid": 12}]
    assert accounts.refusals(users, present) == [
        "user alice has uid 2009 on this node, not 2001: change one of them",
        "user bob: uid 2002 is taken by carol on this node",
        "user dave: uid 12 is below 1000, where the system's own accounts are",
    ]
    assert accounts.refusals([{"name": "carol", "uid": 2002}], present) == []


def test_only_accounts_we_made_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who left the declaration goes; one that somebody else made stays."""
    commands: list[list[str]] = []
    monkeypatch.setattr(accounts, "RECORD", tmp_path / "users.json")
    monkeypatch.setattr(accounts, "run", commands.append)
    monkeypatch.setattr(pwd, "getpwall", lambda: [entry("alice", 2001), entry("other", 2003)])
    (tmp_path / "users.json").write_text('["alice"]')
    dry = accounts.answer({"users": [], "shell": "/bin/bash"}, True)
    assert (dry["removed"], commands) == (["alice"], [])
    assert accounts.answer({"users": [], "shell": "/bin/bash"}, False)["removed"] == ["alice"]
    assert commands == [["userdel", "--force", "alice"]]


# --- node_facts


@pytest.mark.parametrize(
    ("clock", "ahead"),
    [(105.0, 0.0), (100.0, 0.0), (109.9, 0.0), (170, 60.0), (40.0, -60.0), (None, None), ("105", None), (True, None)],
)
def test_how_far_a_clock_is_ahead(clock: object, ahead: float | None) -> None:
    """A slow answer says nothing about a clock: only what lies outside of it does."""
    assert action.ahead(clock, 100.0, 110.0) == ahead


@pytest.mark.parametrize("clock", [float("nan"), float("inf")])
def test_a_clock_that_tells_no_time(clock: float) -> None:
    assert action.ahead(clock, 100.0, 110.0) is None


FACTS = {"system": "debian 13.1", "interfaces": {"rail0": {"addresses": ["10.0.0.1"]}, "rail1": {"addresses": []}}}


@pytest.mark.parametrize(
    ("release", "debian_version", "system"),
    [
        ('ID=debian\nVERSION_ID="13"\n', "13.2\n", "debian 13.2"),
        ('NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n', "trixie/sid\n", "ubuntu 24.04"),
        ('ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n', None, "amzn 2023"),
        ("ID=debian\n", None, "debian"),
        (None, "13.2\n", ""),
    ],
)
def test_what_a_node_runs(release: str | None, debian_version: str | None, system: str, tmp_path: Path) -> None:
    """Debian with its point release; Ubuntu's file of that name says which Debian it was made of."""
    for name, text in {"os-release": release, "debian_version": debian_version}.items():
        if text is not None:
            (tmp_path / name).write_text(text)
    assert node_facts.system_of(tmp_path) == system


def test_all_that_is_not_as_expected_is_said() -> None:
    """A wrong image and missing NICs come in one message."""
    rails = [{"interface": f"rail{n}", "address": f"10.0.{n}.1"} for n in range(3)]
    assert node_facts.unexpected(FACTS, rails, "debian 12") == [
        "runs debian 13.1, the release says debian 12: rebuild the node's image",
        "rail1: has no address, the plan says 10.0.1.1",
        "rail2: the node has no such NIC",
    ]
    assert node_facts.unexpected(FACTS, rails[:1], "debian 13") == []
    without = {"interface": "rail1", "address": ""}  # as one of InfiniBand
    assert node_facts.unexpected(FACTS, [without], "debian 13") == []


def test_rates_of_shaped_nics() -> None:
    """tc counts bytes a second, a rail has Mb/s."""
    found = [
        {"kind": "tbf", "dev": "rail0", "options": {"rate": 25_000_000}},
        {"kind": "noqueue", "dev": "lo", "options": {}},
    ]
    assert node_facts.rates(found) == {"rail0": 200}


def test_facts_of_this_machine() -> None:
    """Looking changes nothing and needs no node."""
    try:
        facts = node_facts.look(["dpkg"])
    except Refused as missing:
        pytest.skip(str(missing))
    assert facts["cores"] > 0
    assert facts["memory_mib"] > 0
    assert "127.0.0.1" in facts["interfaces"]["lo"]["addresses"]


# --- packages

NOTED = {"slurmd": "24.11.5", "iperf3": "3.18", "munge": "0.5", "ethtool": "6.14"}


def test_packages_that_are_not_as_in_the_image_are_said() -> None:
    """Gone, half gone, another version; what a person installed besides is theirs."""
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
    """What dpkg knows, one package a line; commands that change something are added to it."""
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


def test_what_the_repository_has_is_noted(dpkg: list[str], tmp_path: Path) -> None:
    """Only that: nothing else could be installed again from it."""
    (tmp_path / "x_Packages").write_text("Package: slurmd\nVersion: 24.11.5\n\nPackage: iperf3\n")
    dpkg.append("base-files installed 13")
    assert packages.answer({"record": True}, True)["changed"]
    assert not (tmp_path / "packages.json").exists()
    assert packages.answer({"record": True}, False)["changed"]
    assert (tmp_path / "packages.json").read_text() == '{\n "slurmd": "24.11.5"\n}'
    assert not packages.answer({"record": True}, False)["changed"]


def test_only_what_differs_is_installed_again(dpkg: list[str], tmp_path: Path) -> None:
    """In the version of the image; a look installs nothing."""
    (tmp_path / "packages.json").write_text('{"slurmd": "24.11.5", "iperf3": "3.18"}')
    assert packages.answer({"record": False}, True)["drift"] == ["package iperf3 is deinstalled"]
    assert len(dpkg) == 2
    result = packages.answer({"record": False}, False)
    assert dpkg[2] == "dpkg --force-confold --configure -a", "what was interrupted is ended first"
    assert dpkg[3] == "apt-get update --quiet"
    assert dpkg[4].endswith(" iperf3=3.18")
    assert result["msg"] == "after an installation: package iperf3 is deinstalled"


@pytest.mark.parametrize("system", ["debian", "amzn"])
def test_an_installation_says_itself_that_it_takes_too_long(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All commands together may take less than the player lets a task take."""
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
    """What belongs there cannot be told from what is there."""
    assert dpkg
    (word,) = packages.answer({"record": False}, True)["drift"]
    assert word.startswith("unknown: which packages belong here: there is no ")


# --- pinned, kernel_module


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
        ("anything", "", True),
    ],
)
def test_a_version_is_one_of_a_series(version: str, beginning: str, is_one: bool) -> None:
    """As far as the release says it; an epoch is Debian's."""
    assert packaging.begins(version, beginning) is is_one


def test_what_repositories_have() -> None:
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
    """And what a person has locked; a version may say an epoch, and what is behind a hyphen."""
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


def test_what_differs_from_the_release_is_said() -> None:
    """What is missing, half there, or of another version; what the suite has may be of any."""
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
    """A role installs what is missing; nothing exchanges what runs."""
    facts = {"kernel": "6.1.0-9", "packages": {"driver": "570.1-1", "manager": "580.2-1"}}
    roll = "start the node from an image of the release (stampworks roll)"
    assert node_facts.strange_software(facts, {"driver": "580.1", "manager": "580.2", "absent": "1"}, "6.12") == [
        f"runs kernel 6.1.0-9, the release builds its modules for 6.12: {roll}",
        f"package driver is 570.1-1, the release says 580.1: {roll}",
    ]
    assert node_facts.strange_software(facts, {}, "6.12") == []


def test_a_module_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded once; another version is noted and said until it is gone; a look notes nothing."""
    modules, marks, commands = tmp_path / "modules", tmp_path / "reboot", []

    def load(argv: list[str]) -> None:
        commands.append(argv)
        (modules / "efa").mkdir(parents=True)

    def note(path: Path, text: bytes) -> None:
        marks.mkdir()
        path.write_bytes(text)

    monkeypatch.setattr(kernel_module, "SYS", modules)
    monkeypatch.setattr(kernel_module, "MARKS", marks)
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
    (modules / "efa/version").write_text("3.3.1\n")
    left = ["module efa is right, and the note that the node must be started anew is left over"]
    assert kernel_module.answer(call, True) == {"changed": True, "drift": left}
    assert kernel_module.answer(call, False) == {"changed": True, "drift": left}
    assert not (marks / "efa").exists()
    assert kernel_module.answer(call, True) == kernel_module.answer(call, False) == {"changed": False, "drift": []}


# --- slurm_cached


def cached(tmp_path: Path, text: str, check: bool = False) -> dict[str, Any]:
    files = {"slurm.conf": text, "job_submit.lua": "never sent"}
    return slurm_cached.answer({"files": files, "directory": str(tmp_path), "limit_s": 0.3}, check)


def test_slurmds_copy_is_kept(tmp_path: Path) -> None:
    """Edited or removed, it is put back; a look only says so."""
    (tmp_path / "slurm.conf").write_text("edited")
    assert cached(tmp_path, "right", check=True)["drift"] == [f"{tmp_path}/slurm.conf differs"]
    assert (tmp_path / "slurm.conf").read_text() == "edited"
    assert cached(tmp_path, "right")["changed"]
    assert (tmp_path / "slurm.conf").read_text() == "right"
    assert not cached(tmp_path, "right")["changed"]
    (tmp_path / "slurm.conf").unlink()
    assert cached(tmp_path, "right", check=True)["drift"] == [f"{tmp_path}/slurm.conf is missing"]
    assert cached(tmp_path / "not fetched yet", "right") == {"changed": False, "drift": []}


def test_a_copy_that_is_on_its_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller with another configuration sends it a moment later: that is no change of ours."""
    (tmp_path / "slurm.conf").write_text("old")
    monkeypatch.setattr(time, "sleep", lambda _: (tmp_path / "slurm.conf").write_text("right"))
    assert not cached(tmp_path, "right")["changed"]


# --- slurm_controller

GOOD = "slurmctld: slurmctld version 24.11.5 started\nslurmctld: Running as primary controller\n"
BAD = (
    "slurmctld: error: Parse error in file slurm.conf line 7\n"
    "slurmctld: error: Could not open node state file /var/lib/slurm/slurmctld/node_state: No such file or directory\n"
    "slurmctld: debug: nothing\n"
    "slurmctld: fatal: Unable to process configuration file\n"
    "slurmctld: error: Parse error in file slurm.conf line 7\n"
)


def test_the_trial_shares_nothing_with_the_real_controller(tmp_path: Path) -> None:
    """Neither its state nor its database; what needs the database is replaced by what does not."""
    text = slurm_controller.trial_text(
        "ClusterName=x\nStateSaveLocation=/var/lib/slurm\nAccountingStorageType=accounting_storage/slurmdbd\n"
        "AccountingStorageEnforce=qos\nPreemptType=preempt/qos\nPriorityType=priority/multifactor\n",
        tmp_path,
    )
    assert text.split() == [
        "ClusterName=x",
        "PreemptType=preempt/partition_prio",
        "PriorityType=priority/basic",
        f"StateSaveLocation={tmp_path}/state",
        f"SlurmctldPidFile={tmp_path}/pid",
    ]


def test_the_complaint_is_what_was_fatal_first() -> None:
    """Each line once."""
    expected = "Unable to process configuration file; Parse error in file slurm.conf line 7"
    assert slurm_controller.complaint(BAD, 20) == expected
    assert slurm_controller.complaint("", 20) == "no answer within 20 s: it said nothing"


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A call of the module on a folder of the test's own, with a controller that says what the test wants."""
    user = pwd.getpwuid(tmp_path.stat().st_uid).pw_name
    monkeypatch.setattr(slurm_controller, "group_id", lambda _: tmp_path.stat().st_gid)
    monkeypatch.setattr(slurm_controller, "supervisor", Running)
    monkeypatch.setattr(slurm_controller, "bring_up", lambda *_: None)
    monkeypatch.setattr(slurm_controller, "outdated", lambda *_: False)
    return {
        "files": {"slurm.conf": "new"},
        "directory": str(tmp_path),
        "user": user,
        "service": "slurmctld",
        "trial_s": 1.0,
    }


class Running:
    restarted: list[str] = []  # noqa: RUF012 (the test looks at it)

    def running(self, _name: str) -> str:
        return "this run"

    def control(self, _name: str, verb: str) -> None:
        self.restarted.append(verb)


def test_a_refused_configuration_stays_out(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running controller never sees it; a look does not even try it."""
    (tmp_path / "slurm.conf").write_text("old")
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: BAD)
    said = (
        "slurmctld refuses this configuration, so it was not put in place: "
        "Unable to process configuration file; Parse error in file slurm.conf line 7"
    )
    assert slurm_controller.answer(controller, False)["msg"] == said
    assert (tmp_path / "slurm.conf").read_text() == "old"
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: pytest.fail("tried"))
    assert slurm_controller.answer(controller, True)["drift"] == [f"{tmp_path}/slurm.conf differs"]


def test_an_accepted_configuration_goes_in_once(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run does not even try it."""
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    drift = [f"{controller['directory']}/slurm.conf is missing"]
    assert slurm_controller.answer(controller, False) == {"changed": True, "drift": drift, "files": ["slurm.conf"]}
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: pytest.fail("tried again"))
    assert slurm_controller.answer(controller, False) == {"changed": False, "drift": [], "files": []}


def test_the_old_files_go_back_when_the_controller_is_gone(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the trial could not see must not stay either."""

    def gone(*_: Any) -> None:
        raise Refused("slurmctld does not answer")

    (tmp_path / "slurm.conf").write_text("old")
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    monkeypatch.setattr(slurm_controller, "bring_up", gone)
    assert slurm_controller.answer(controller, False)["msg"] == "slurmctld does not answer"
    assert (tmp_path / "slurm.conf").read_text() == "old"
    assert Running.restarted.pop() == "restart"


def test_a_queue_from_before_the_accounting_forgets_its_number(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld would die of it; without accounting, or where nothing starts anew, it stays."""
    number = tmp_path / "clustername"
    number.write_text("stand|3167")
    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    plain = {**controller, "state": str(tmp_path)}
    assert slurm_controller.answer(plain, False)["changed"]
    assert number.read_text() == "stand|3167"
    accounted = {**plain, "files": {"slurm.conf": "AccountingStorageType=accounting_storage/slurmdbd\n"}}
    assert slurm_controller.answer(accounted, False)["changed"]
    assert number.read_text() == "stand"
    number.write_text("stand|3667")
    assert not slurm_controller.answer(accounted, False)["changed"]
    assert number.read_text() == "stand|3667"


def test_nodes_that_slurm_never_heard_of_are_held(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those it knows are not, though after a restart it calls them unknown as well."""
    updates: list[list[str]] = []
    states = {"gpu-001": "unknown*", "gpu-002": "unknown*"}

    def slurm(argv: list[str], **_: Any) -> Any:
        updates.extend([argv[2:]] if argv[0] == "scontrol" else [])
        return subprocess.CompletedProcess(argv, 0, "".join(f"{name}|{it}\n" for name, it in states.items()), "")

    monkeypatch.setattr(slurm_controller, "listen", lambda *_: GOOD)
    monkeypatch.setattr(slurm_controller, "run", slurm)
    first = {**controller, "state": str(tmp_path), "new_reason": "proof: not proven yet"}
    slurm_controller.answer(first, False)
    assert updates == [["nodename=gpu-001,gpu-002", "state=drain", 'reason="proof: not proven yet"']]
    slurm_controller.answer(first, False)
    assert len(updates) == 1, "a restart"
    states |= {"gpu-003": "unknown*", "gpu-004": "idle"}
    slurm_controller.answer(first, False)
    assert updates[1:] == [["nodename=gpu-003", "state=drain", 'reason="proof: not proven yet"']]
    (tmp_path / "stampworks-nodes").unlink()
    (tmp_path / "node_state").touch()
    slurm_controller.answer(first, False)
    assert len(updates) == 2, "a queue that is older than the record"


def test_a_controller_with_another_key_or_program_is_restarted(
    controller: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads both only when it starts."""
    (tmp_path / "slurm.conf").write_text("new")
    monkeypatch.undo()
    monkeypatch.setattr(slurm_controller, "group_id", lambda _: tmp_path.stat().st_gid)
    monkeypatch.setattr(slurm_controller, "supervisor", Running)
    monkeypatch.setattr(slurm_controller, "await_ping", lambda _: None)
    monkeypatch.setattr(slurm_controller, "outdated", lambda _, names: f"{tmp_path}/slurm.key" in names)
    Running.restarted.clear()
    drift = ["slurmctld runs with what it was started with before a change"]
    assert slurm_controller.answer(controller, True)["drift"] == drift
    assert Running.restarted == []
    assert slurm_controller.answer(controller, False) == {"changed": True, "drift": drift, "files": []}
    assert Running.restarted == ["restart"]


# --- slurm_accounting

PRIORITIES = [{"name": "low", "weight": 1, "preempts": []}, {"name": "high", "weight": 9, "preempts": ["low"]}]
ACCOUNT = {"name": "research", "users": ["alice"], "share": 2, "accelerators_max": 16}


def rows(text: str, *columns: str) -> dict[str, dict[str, str]]:
    return {row[columns[0]]: row for row in slurm_accounting.parsed(text, columns)}


def test_priorities_are_made_before_they_are_said_to_preempt() -> None:
    """And changed only where they differ."""
    found = rows("normal|0||cluster\nlow|1||requeue\nold|5||requeue\n", "name", "priority", "preempt", "preemptmode")
    assert slurm_accounting.qos_commands(PRIORITIES, "requeue", found) == [
        ["add", "qos", "high"],
        ["modify", "qos", "high", "set", "priority=9", "preempt=low", "preemptmode=requeue"],
        ["delete", "qos", "old"],
    ]
    found = rows(
        "normal|0||cluster\nlow|1||requeue\nhigh|9|low|requeue\n", "name", "priority", "preempt", "preemptmode"
    )
    assert slurm_accounting.qos_commands(PRIORITIES, "requeue", found) == []


def associations(text: str) -> dict[str, dict[str, str]]:
    columns = ("account", "user", "fairshare", "grptres", "qos")
    return {f"{row['account']}/{row['user']}": row for row in slurm_accounting.parsed(text, columns)}


def test_accounts_are_made_with_their_limits() -> None:
    """An account first, then its users."""
    found = associations("root||1||normal\nroot|root|1||normal\n")
    assert slurm_accounting.account_commands("cluster=c", [ACCOUNT], PRIORITIES, found) == [
        ["add", "account", "research", "cluster=c", "fairshare=2", "grptres=gres/gpu=16", "qos=high,low,normal"],
        ["add", "user", "alice", "account=research", "cluster=c"],
    ]


def test_accounts_that_are_right_are_left_alone() -> None:
    """Also one without a limit, which sacctmgr shows as nothing."""
    found = associations(
        "root||1||normal\nresearch||2|gres/gpu=16|high,low,normal\nresearch|alice|1||normal\nfree||1||high,low,normal\n"
    )
    accounts_ = [ACCOUNT, {"name": "free", "users": [], "share": 1, "accelerators_max": 0}]
    assert slurm_accounting.account_commands("cluster=c", accounts_, PRIORITIES, found) == []


def test_the_first_account_that_a_user_names_is_their_default() -> None:
    """Slurm takes the one they were added to first, in the order of accounts."""
    found = {"alice": {"user": "alice", "defaultaccount": "research"}, "bob": {"user": "bob", "defaultaccount": "x"}}
    wanted = {"alice": "research", "bob": "product", "new": "product"}
    assert slurm_accounting.default_commands("cluster=c", wanted, found) == [
        ["modify", "user", "bob", "where", "cluster=c", "set", "defaultaccount=product"],
        ["modify", "user", "new", "where", "cluster=c", "set", "defaultaccount=product"],
    ]


def test_a_lifted_limit_and_people_who_left() -> None:
    """What is declared no longer is taken back."""
    found = associations(
        "root||1||normal\nroot|root|1||normal\nresearch||2|gres/gpu=16|high,low,normal\n"
        "research|alice|1||normal\nresearch|bob|1||normal\ngone||1||normal\ngone|alice|1||normal\n"
    )
    accounts_ = [{**ACCOUNT, "accelerators_max": 0}]
    commands = slurm_accounting.account_commands("cluster=c", accounts_, PRIORITIES, found)
    assert commands + slurm_accounting.removals("cluster=c", accounts_, found) == [
        [
            *("modify", "account", "research", "where", "cluster=c", "set"),
            *("fairshare=2", "grptres=gres/gpu=-1", "qos=high,low,normal"),
        ],
        ["delete", "user", "bob", "where", "account=research", "cluster=c"],
        ["delete", "account", "gone", "where", "cluster=c"],
    ]


def test_sacctmgr_is_asked_again_until_slurmdbd_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that was just started needs a moment; any other error is told at once."""
    answers = ["error: Unable to connect to slurmdbd", ""]

    def fake(argv: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        said = answers.pop(0)
        return subprocess.CompletedProcess(argv, 1 if said else 0, "a|b\n", said)

    monkeypatch.setattr(slurm_accounting, "run", fake)
    assert slurm_accounting.sacctmgr("show", "qos") == "a|b\n"
    answers.append("error: You are not running a supported accounting_storage plugin")
    with pytest.raises(Refused, match="sacctmgr show qos: error: You are not running"):
        slurm_accounting.sacctmgr("show", "qos")


# --- slurm_ready


def ready(nodes: list[str], check: bool = False) -> dict[str, Any]:
    return slurm_ready.answer({"nodes": nodes, "own_reason": prefix("stampworks"), "limit_s": 0}, check)


def test_only_what_an_up_drained_takes_jobs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain of a person, of the health check or of Slurm is not undone."""
    reasons = (written(LEAVES), written(RENEWED), "person alice: stampworks: x", "health: disk", "new fans")
    states = {name: ("drained", reason) for name, reason in zip("abcde", reasons, strict=True)}
    commands: list[list[str]] = []
    monkeypatch.setattr(slurm_ready, "look", lambda: states)
    monkeypatch.setattr(slurm_ready, "run", commands.append)
    result = ready([*"abcde"])
    assert commands == [["scontrol", "update", "nodename=a,b", "state=resume"]]
    assert (result["changed"], sorted(result["held"])) == (True, ["c", "d", "e"])
    assert ready([*"abcde"], check=True)["changed"]
    assert len(commands) == 1


def test_nodes_that_slurm_has_not_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star means no answer; a drained node did answer and keeps its reason."""
    states = {"a": ("idle", ""), "b": ("down*", "Not responding"), "c": ("unknown", ""), "d": ("drained", "fan")}
    assert slurm_ready.unheard(["a", "b", "c", "d", "e"], states) == ["b", "c", "e"]
    monkeypatch.setattr(slurm_ready, "look", lambda: states)
    assert ready(["a", "d"])["held"] == {"d": "drained: fan"}
    result = ready(["a", "b", "e"])
    assert result["msg"] == (
        "slurmctld has not heard of 2 of 3 nodes within 0 s: b is down*; e is unknown to it. "
        "What slurmd says is on the node in /var/log/stampworks/slurmd/current; "
        "clocks that differ by a minute are enough (pulumi refresh compares them)"
    )


def test_a_node_that_was_silent_twice_takes_jobs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm does not recognise its own reason then; whoever is silent still, or has another reason, stays down."""
    twice = "Not responding : Not responding"
    states = {"a": ("down", twice), "b": ("down", "Not responding"), "c": ("drained", twice), "d": ("down", "new fans")}
    states["e"] = ("down", f"{twice} : new fans")
    commands: list[list[str]] = []
    monkeypatch.setattr(slurm_ready, "look", lambda: states)
    monkeypatch.setattr(slurm_ready, "run", commands.append)
    result = ready([*"abcde"])
    assert commands == [["scontrol", "update", "nodename=a,b", "state=resume"]]
    assert result["drift"][0] == f"Slurm still holds a: {twice}"
    assert sorted(result["held"]) == ["c", "d", "e"]
    assert ready([*"abcde"], check=True)["drift"] == [], "a look has Slurm's own words for it"
