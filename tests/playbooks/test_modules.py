"""Decisions of modules without a node: shared code, mounts, accounts, facts."""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.action import node_facts as action
from ansible_collections.stampworks.node.plugins.module_utils import tables
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run
from ansible_collections.stampworks.node.plugins.modules import (
    accounts,
    homes,
    mounts,
    node_facts,
)

COLLECTIONS = Path(__file__).parents[2] / "playbooks" / "collections"

# --- what all modules share


def test_error_includes_output_of_the_command() -> None:
    """The error has the command and its exit status."""
    with pytest.raises(Refused, match=r"^sh -c echo no >&2; exit 4: exit code 4: no$"):
        run(["sh", "-c", "echo no >&2; exit 4"])


def test_a_missing_program_is_said_with_the_cause() -> None:
    """Nodes get their programs from the image."""
    with pytest.raises(Refused, match="no-such-program: not installed on this node: was its image built by the same"):
        run(["no-such-program"])


def test_a_command_that_hangs_is_ended() -> None:
    """No command on a node keeps a run from ending."""
    with pytest.raises(Refused, match=r"sleep 9: no answer within 0\.1 s"):
        run(["sleep", "9"], timeout=0.1)


def test_a_refusal_is_an_answer() -> None:
    """A module fails with its message, not with a traceback; in check mode it is an additional finding."""

    def work(check: bool) -> dict[str, Any]:
        raise Refused("no")

    assert answering(work)({}, False) == {"changed": False, "failed": True, "msg": "no"}
    assert answering(work)({}, True) == {"changed": True, "drift": ["unknown: no"]}


# --- mounts

SHARED = {"source": "/exports/shared", "path": "/shared", "type": "none", "options": "bind"}
OTHERS = "UUID=1 / ext4 defaults 0 1\n"


def test_fstab_keeps_the_lines_of_others() -> None:
    """Only lines between our marks are changed."""
    text, had = mounts.OURS.put(OTHERS, [mounts.fstab_line(SHARED)])
    assert text == f"{OTHERS}{mounts.OURS.begin}/exports/shared /shared none bind 0 0\n{mounts.OURS.end}"
    assert had == {}
    shared = {"/shared": "/exports/shared"}
    assert mounts.OURS.put(text, [mounts.fstab_line(SHARED)]) == (text, shared)
    assert mounts.OURS.put(text + "tmpfs /x tmpfs\n", []) == (OTHERS + "tmpfs /x tmpfs\n", shared)


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


class Umount:
    """Replace every command of the module: record it, with a result for umount."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.busy = self.silent = False

    def __call__(self, argv: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:  # noqa: ARG002
        self.commands.append(" ".join(argv))
        if self.silent and argv[:2] == ["umount", argv[-1]]:
            raise Refused(f"{' '.join(argv)}: no answer within 60 s")
        return subprocess.CompletedProcess(argv, 32 * self.busy, "", "umount: target is busy.\n" * self.busy)


def mount(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mounted: str,
    check: bool = False,
    source: str = "",
    umount: Umount | None = None,
) -> tuple[Any, list[str]]:
    umount = umount or Umount()
    monkeypatch.setattr(mounts, "FSTAB", tmp_path / "fstab")
    monkeypatch.setattr(mounts, "MOUNTINFO", tmp_path / "mountinfo")
    monkeypatch.setattr(mounts, "run", umount)
    (tmp_path / "mountinfo").write_text("".join(f"1 0 0:1 / {path} rw - x x rw\n" for path in mounted.split()))
    wanted = {**SHARED, "source": source or str(tmp_path), "path": str(tmp_path / "here")}
    return mounts.answer({"mounts": [wanted]}, check), umount.commands


def test_a_missing_mount_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes a mount whose line in fstab is already right."""
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
    """The error names the command to look with."""
    with pytest.raises(Refused, match="/shared: there is no /not/there on this node to mount: is its storage declared"):
        mounts.mount_now({**SHARED, "source": "/not/there"})


def test_a_busy_mount_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that cannot be unmounted stays in fstab, so that the next run tries again."""
    mount(tmp_path, monkeypatch, f"/ {tmp_path}/here")
    umount = Umount()
    umount.busy = True
    monkeypatch.setattr(mounts, "run", umount)
    for _ in range(2):
        assert mounts.answer({"mounts": []}, False)["failed"]
    assert umount.commands == [f"umount {tmp_path}/here"] * 2


def test_undeclared_mount_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes the last mount; without mounts of the toolkit nothing changes, and no command runs."""
    (tmp_path / "fstab").write_text(OTHERS)
    mount(tmp_path, monkeypatch, f"/ {tmp_path}/here")
    umount = Umount()
    monkeypatch.setattr(mounts, "run", umount)
    looked = mounts.answer({"mounts": []}, True)
    assert looked["drift"] == [f"{tmp_path}/fstab differs", f"{tmp_path}/here is mounted"]
    assert umount.commands == []
    assert mounts.answer({"mounts": []}, False)["unmounted"] == [f"{tmp_path}/here"]
    assert umount.commands == [f"umount {tmp_path}/here"]
    assert (tmp_path / "fstab").read_text() == OTHERS
    assert not mounts.answer({"mounts": []}, False)["changed"]
    assert len(umount.commands) == 1


def test_nothing_to_mount_makes_no_fstab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node never had any storage."""
    monkeypatch.setattr(mounts, "FSTAB", tmp_path / "fstab")
    assert not mounts.answer({"mounts": []}, False)["changed"]
    assert not mounts.FSTAB.exists()


def replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umount: Umount, check: bool = False) -> dict[str, Any]:
    """Simulate a mount whose source differs from the one of an earlier run."""
    (tmp_path / "new").mkdir(exist_ok=True)
    result, _ = mount(tmp_path, monkeypatch, f"/ {tmp_path}/here", check, str(tmp_path / "new"), umount)
    return dict(result)


def test_mount_of_another_source_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look reports the replaced file system, and a second run has nothing to do."""
    here = tmp_path / "here"
    mount(tmp_path, monkeypatch, f"/ {here}")
    umount = Umount()
    looked = replaced(tmp_path, monkeypatch, umount, check=True)
    assert looked["drift"] == [f"{tmp_path}/fstab differs", f"{here} is {tmp_path}, not {tmp_path}/new"]
    assert umount.commands == []
    assert replaced(tmp_path, monkeypatch, umount)["changed"]
    assert umount.commands == [f"umount {here}", f"mount {here}"]
    assert not replaced(tmp_path, monkeypatch, umount)["changed"]
    assert len(umount.commands) == 2


def test_a_replaced_mount_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run fails while it is in use: its line stays, and nothing is mounted over it."""
    mount(tmp_path, monkeypatch, f"/ {tmp_path}/here")
    umount = Umount()
    umount.busy = True
    for _ in range(2):
        assert replaced(tmp_path, monkeypatch, umount)["msg"] == (
            f"{tmp_path}/here: {tmp_path} is to go from there and cannot (umount: target is busy.): end the jobs and "
            "sessions that use it on this node, then run pulumi up again"
        )
    assert umount.commands == [f"umount {tmp_path}/here"] * 2


def test_a_file_system_that_does_not_answer_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage is deleted, and a normal unmount would hang."""
    mount(tmp_path, monkeypatch, f"/ {tmp_path}/here")
    umount = Umount()
    umount.silent = True
    assert replaced(tmp_path, monkeypatch, umount)["changed"]
    here = f"{tmp_path}/here"
    assert umount.commands == [f"umount {here}", f"umount --force --lazy {here}", f"mount {here}"]


ON_A_NODE = """
import json, sys
from pathlib import Path
from ansible_collections.stampworks.node.plugins.modules import mounts

here = Path(sys.argv[1])
for name in ("old", "new"):
    (here / name).mkdir()
    (here / name / "which").write_text(name)
mounts.FSTAB = here / "fstab"
said = []
for name in ("old", "old", "new", "new", "", ""):
    wanted = {"source": str(here / name), "path": str(here / "at"), "type": "none", "options": "bind"}
    said.append(mounts.answer({"mounts": [wanted] if name else []}, False)["changed"])
    said.append("".join(each.read_text() for each in (here / "at").iterdir()))
print(json.dumps(said))
"""


def test_a_mount_that_is_replaced_and_goes_on_a_node(tmp_path: Path) -> None:
    """mount and umount themselves run, in a mount namespace of the test."""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", ON_A_NODE, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "LIBMOUNT_FSTAB": str(tmp_path / "fstab")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, "old", False, "old", True, "new", False, "new", True, "", False, ""]


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
    """A user who left the declaration is removed; an account of other origin stays."""
    commands: list[list[str]] = []
    monkeypatch.setattr(accounts, "RECORD", tmp_path / "users.json")
    monkeypatch.setattr(accounts, "run", commands.append)
    monkeypatch.setattr(pwd, "getpwall", lambda: [entry("alice", 2001), entry("other", 2003)])
    monkeypatch.setattr(accounts, "GROUPS", tmp_path / "groups.json")
    monkeypatch.setattr(grp, "getgrall", lambda: [group("nlp", 3001), group("theirs", 3002)])
    (tmp_path / "users.json").write_text('["alice"]')
    (tmp_path / "groups.json").write_text('["nlp"]')
    nobody = {"users": [], "groups": [], "shell": "/bin/bash"}
    dry = accounts.answer(nobody, True)
    assert (dry["removed"], commands) == (["alice"], [])
    assert dry["drift"] == ["user alice is left over", "group nlp is left over"]
    assert accounts.answer(nobody, False)["removed"] == ["alice"]
    assert commands == [["userdel", "--force", "alice"], ["groupdel", "nlp"]]


def group(name: str, gid: int, *users: str) -> grp.struct_group:
    return grp.struct_group((name, "x", gid, [*users]))


def test_groups_have_the_declared_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are created with their number, changed only if other users are in them, and take over no number."""
    commands: list[list[str]] = []
    monkeypatch.setattr(accounts, "RECORD", tmp_path / "users.json")
    monkeypatch.setattr(accounts, "GROUPS", tmp_path / "groups.json")
    monkeypatch.setattr(accounts, "run", commands.append)
    monkeypatch.setattr(grp, "getgrall", lambda: [group("nlp", 3001, "bob"), group("vision", 3002, "alice", "bob")])
    wanted = [
        {"name": "nlp", "gid": 3001, "users": ["alice"]},
        {"name": "vision", "gid": 3002, "users": ["bob", "alice"]},
        {"name": "ops", "gid": 3003, "users": []},
    ]
    said = accounts.answer({"users": [], "groups": wanted, "shell": "/bin/bash"}, False)
    assert said["drift"] == ["group ops is missing", "group nlp has other users"]
    assert commands == [
        ["gpasswd", "--members", "alice", "nlp"],
        ["groupadd", "--gid", "3003", "ops"],
        ["gpasswd", "--members", "", "ops"],
    ]
    taken = [{"name": "new", "gid": 3002, "users": []}, {"name": "nlp", "gid": 3005, "users": []}]
    assert accounts.answer({"users": [], "groups": taken, "shell": "/bin/bash"}, False)["msg"] == (
        "group new: gid 3002 is taken by vision on this node; "
        "group nlp has gid 3001 on this node, not 3005: change one of them"
    )


def test_a_home_that_moves_takes_no_file_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account gets the new home, and all others stay."""
    passwd = tmp_path / "passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\nalice:x:2001:2001::/home/alice:/bin/bash\n")
    for name, path in (("RECORD", "users"), ("GROUPS", "groups"), ("PASSWD", "passwd"), ("LOCK", "lock")):
        monkeypatch.setattr(accounts, name, tmp_path / path)
    found = pwd.struct_passwd(("alice", "x", 2001, 2001, "", "/home/alice", "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [found])
    monkeypatch.setattr(grp, "getgrall", list)
    monkeypatch.setattr(accounts, "write", lambda path, content: path.write_bytes(content))
    alice = {"users": [{"name": "alice", "uid": 2001, "home": "/shared/home/alice"}], "groups": [], "shell": "/bin/sh"}
    assert accounts.answer(alice, True)["drift"] == ["user alice has another home than /shared/home/alice"]
    assert "/home/alice:" in passwd.read_text()
    assert accounts.answer(alice, False)["changed"]
    assert passwd.read_text() == ("root:x:0:0::/root:/bin/sh\nalice:x:2001:2001::/shared/home/alice:/bin/bash\n")


# --- homes


def test_homes_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home gets the skeleton; existing files, owner and mode stay, and no link is followed."""
    me, mine = os.getuid(), os.getgid()
    skeleton = tmp_path / "skel"
    skeleton.mkdir()
    (skeleton / ".profile").write_text("mine")
    monkeypatch.setattr(homes, "SKELETON", skeleton)
    monkeypatch.setattr(homes, "ROOT", me)
    shared = tmp_path / "shared"
    shared.mkdir()
    wanted = {
        "users": [{"path": f"{shared}/home/alice", "uid": me}],
        "groups": [{"path": f"{shared}/teams/nlp", "gid": mine}],
    }
    missing = [f"{shared}/{name} is missing" for name in ("home", "teams", "home/alice", "teams/nlp")]
    assert homes.answer(wanted, True)["drift"] == missing
    assert not [*shared.iterdir()]
    assert homes.answer(wanted, False)["drift"] == missing
    home, team = shared / "home/alice", shared / "teams/nlp"
    modes = [path.stat().st_mode & 0o7777 for path in (home, team)]
    assert (modes, (home / ".profile").read_text()) == ([0o700, 0o2770], "mine")
    (home / ".profile").write_text("hers")
    home.chmod(0o755)
    assert homes.answer(wanted, False)["drift"] == [f"{home} has another owner or mode"]
    assert ((home / ".profile").read_text(), homes.answer(wanted, False)["changed"]) == ("hers", False)
    wanted["users"][0]["uid"] = me + 1  # another person of that name, whose files these are not
    monkeypatch.setattr(homes, "ROOT", me + 2)
    said = f"{home}: belongs to the user with the number {me}, not {me + 1}: move it away"
    assert said in homes.answer({"users": wanted["users"], "groups": []}, True)["drift"][-1]
    wanted["users"][0]["uid"] = me
    monkeypatch.setattr(homes, "ROOT", me)
    team.rmdir()
    team.symlink_to(home)
    assert "a file or a link stands where a folder should" in homes.answer(wanted, False)["msg"]


# --- node_facts


@pytest.mark.parametrize(
    ("clock", "ahead"),
    [(105.0, 0.0), (100.0, 0.0), (109.9, 0.0), (170, 60.0), (40.0, -60.0), (None, None), ("105", None), (True, None)],
)
def test_how_far_a_clock_is_ahead(clock: object, ahead: float | None) -> None:
    """A slow answer gives a range for the clock: only values outside of it count."""
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
def test_reads_the_operating_system(
    release: str | None, debian_version: str | None, system: str, tmp_path: Path
) -> None:
    """Debian has a point release; Ubuntu has a file of the same name for the Debian it is based on."""
    for name, text in {"os-release": release, "debian_version": debian_version}.items():
        if text is not None:
            (tmp_path / name).write_text(text)
    assert node_facts.system_of(tmp_path) == system


def test_all_that_is_not_as_expected_is_said() -> None:
    """A wrong image and missing NICs are reported in the same message."""
    rails = [{"interface": f"rail{n}", "address": f"10.0.{n}.1"} for n in range(3)]
    assert node_facts.unexpected(FACTS, rails, "debian 12") == [
        "runs debian 13.1, the release says debian 12: rebuild the node's image",
        "rail1: has no address, the plan says 10.0.1.1",
        "rail2: the node has no such NIC",
    ]
    assert node_facts.unexpected(FACTS, rails[:1], "debian 13") == []
    without = {"interface": "rail1", "address": ""}  # for example InfiniBand
    assert node_facts.unexpected(FACTS, [without], "debian 13") == []


def test_rates_of_shaped_nics() -> None:
    """tc counts bytes a second, a rail has Mb/s."""
    found = [
        {"kind": "tbf", "dev": "rail0", "options": {"rate": 25_000_000}},
        {"kind": "noqueue", "dev": "lo", "options": {}},
    ]
    assert node_facts.rates(found) == {"rail0": 200}


def test_a_node_without_tc_shapes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon Linux has that program in a package of its own, which its image lacks."""

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert argv[0] == "ip"
        return subprocess.CompletedProcess(argv, 0, '[{"ifname": "ens5", "mtu": 9001, "flags": ["LOWER_UP"]}]', "")

    monkeypatch.setattr(node_facts, "run", run)
    monkeypatch.setattr(node_facts, "speed", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert node_facts.interfaces() == {
        "ens5": {"addresses": [], "mtu_bytes": 9001, "carrier": True, "rate_mbps": None},
    }


def test_facts_of_this_machine() -> None:
    """Looking changes nothing and needs no node."""
    try:
        facts = node_facts.look(["dpkg"])
    except Refused as missing:
        pytest.skip(str(missing))
    assert facts["cores"] > 0
    assert facts["memory_mib"] > 0
    assert "127.0.0.1" in facts["interfaces"]["lo"]["addresses"]
