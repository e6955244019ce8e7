"""The decisions of modules that need no node: what all share, mounts, accounts, facts."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.action import node_facts as action
from ansible_collections.stampworks.node.plugins.module_utils import tables
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run
from ansible_collections.stampworks.node.plugins.modules import (
    accounts,
    mounts,
    node_facts,
)

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
