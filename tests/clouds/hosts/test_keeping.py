"""The parts of giving a host back: lists, files, accounts, mounts, processes and packages."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stampworks.clouds.hosts import keeper
from stampworks.clouds.hosts.errors import HostError
from stampworks.clouds.hosts.keeping import accounts, found, mounts, packages, places, processes, services
from stampworks.clouds.hosts.keeping.back import GiveBack, forget_key
from stampworks.clouds.hosts.keeping.found import Found
from stampworks.clouds.hosts.keeping.processes import Process
from stampworks.clouds.hosts.keeping.tree import Tree
from stampworks.clouds.hosts.shell import Answer
from stampworks.plan import Host, Hosts

ROOT = Path(__file__).resolve().parents[3]
PASSWD = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
GROUP = "root:x:0:\nadm:x:4:ubuntu\nubuntu:x:1000:\n"
HOST = Host("203.0.113.4", 22, "10.0.0.4", "ssh-ed25519 AAAA", "", "gpu", "", ())
HOSTS = Hosts("", "root", "", None, (HOST,))


def look(tree: Tree) -> Found:
    """Look at the files of a root of the test's own; its programs and processes would be this machine's."""
    users, groups = (accounts.accounts(tree.text(path)) for path in ("/etc/passwd", "/etc/group"))
    return Found({}, users, groups, {}, {}, {}, {}, {}, "host", tree.entries())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small host."""
    for folder in (
        "etc/ssh",
        "etc/pam.d",
        "home/ubuntu",
        "opt",
        "root/.ssh",
        "srv",
        "usr/local/bin",
        "var/lib",
        "var/log",
    ):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    (tmp_path / "etc/shadow").write_text("root:*:1::\nubuntu:*:1::\n")
    (tmp_path / "etc/shadow").chmod(0o640)
    (tmp_path / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "etc/pam.d/sshd").write_text("account required pam_unix.so\n")
    (tmp_path / "etc/mtab").symlink_to("/proc/mounts")
    (tmp_path / "etc/localtime").symlink_to("/usr/share/zoneinfo/UTC")
    (tmp_path / "usr/local/bin/tool").write_text("theirs")
    (tmp_path / "root/.ssh/authorized_keys").write_text("ssh-ed25519 operator\n")
    return tmp_path


def keep(root: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(found, "look", look)
    tree = Tree(str(root), ())
    assert found.keep(tree)
    return tree


def giving(tree: Tree) -> GiveBack:
    before = found.read(tree)
    assert before
    return GiveBack(tree, before, keep_packages=False)


def test_a_second_keep_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is of the host as it was before the first."""
    tree = keep(root, monkeypatch)
    (root / "etc/new").write_text("")
    assert not found.keep(tree)
    before = found.read(tree)
    assert before
    assert "/etc/new" not in before.files
    assert (root / "var/lib/stampworks/before").stat().st_mode & 0o777 == 0o700
    copied = root / "var/lib/stampworks/before/copy/etc"
    assert (copied / "shadow").stat().st_mode & 0o777 == 0o640
    assert (copied / "localtime").readlink() == Path("/usr/share/zoneinfo/UTC")


def test_a_killed_keep_starts_afresh(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a list is no list, and it is not listed."""
    draft = root / "var/lib/stampworks/.before.new"
    draft.mkdir(parents=True)
    (draft / "found.json").write_text("{")
    before = found.read(keep(root, monkeypatch))
    assert before
    assert not draft.exists()
    assert not [path for path in before.files if "stampworks" in path]


def test_a_mark_without_a_list_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise files of the other cluster would be taken for the operator's."""
    (root / "etc/stampworks").mkdir()
    (root / "etc/stampworks/cluster").write_text("other")
    with pytest.raises(found.RefusedError, match="give the host back first"):
        keep(root, monkeypatch)


def test_files_of_roles_go_and_changed_ones_come_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Access, and what the operator did meanwhile outside of /etc, is left alone."""
    tree = keep(root, monkeypatch)
    written = {
        "etc/hosts": "ours",
        "etc/pam.d/sshd": "ours",
        "etc/ssh/sshd_config.d/60-stampworks.conf": "ours",
        "etc/slurm/slurm.conf": "ours",
        "usr/local/lib/python3.13/dist-packages/stampworks_torch.py": "ours",
        "usr/local/libexec/stampworks/await-port": "ours",
    }
    theirs = {
        "etc/ssh/sshd_config.d/10-operator.conf": "theirs",
        "etc/sudoers.d/operator": "theirs",
        "opt/theirs": "theirs",
        "root/.ssh/authorized_keys": "ssh-ed25519 operator\nssh-ed25519 second\n",
        "root/notes": "theirs",
        "usr/local/bin/tool": "theirs, changed",
        "home/ubuntu/work": "theirs",
    }
    for name, text in {**written, **theirs, "etc/stampworks/cluster": "mark", "etc/unknown": "x"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "etc/localtime").unlink()
    (root / "etc/localtime").write_text("a file now")
    (root / "etc/shadow").chmod(0o600)
    record = root / "var/lib/stampworks/files/base.json"
    record.parent.mkdir()
    record.write_text(json.dumps([f"/{name}" for name in written]))
    back = giving(tree)
    back.ours.files = sorted(found.written_by_roles(tree))
    back.remove_written()
    back.restore_copied()
    assert back.failed == []
    assert (root / "etc/hosts").read_text() == "127.0.0.1 localhost\n"
    assert (root / "etc/pam.d/sshd").read_text() == "account required pam_unix.so\n"
    assert (root / "etc/localtime").readlink() == Path("/usr/share/zoneinfo/UTC")
    for name in ("etc/ssh/sshd_config.d/60-stampworks.conf", "etc/slurm", "usr/local/lib", "usr/local/libexec"):
        assert not (root / name).exists(), name
    assert not (root / "etc/unknown").exists()
    assert (root / "etc/stampworks/cluster").read_text() == "mark", "it goes last"
    for name, text in theirs.items():
        assert (root / name).read_text() == text


def test_no_step_follows_a_link_or_leaves_the_file_system(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither a link in the way nor a mount point is entered, and protected paths stay with all above them."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "data").write_text("theirs")
    (root / "srv/link").symlink_to(outside)
    for name in ("srv/all/mounted/data", "srv/all/protected/data", "srv/all/rest"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    tree = Tree(str(root), ["/", "/srv/all/mounted"], ["/srv/all/protected"])
    assert tree.remove("/srv/link/data"), "it leads nowhere"
    assert (outside / "data").read_text() == "theirs"
    assert not tree.remove("/srv/all")
    assert not tree.remove("/srv/all/mounted/data")
    assert not tree.remove("/srv/all/protected/data")
    assert not tree.remove_empty("/srv/all/mounted")
    assert (root / "srv/all/mounted/data").exists()
    assert (root / "srv/all/protected/data").exists()
    assert not (root / "srv/all/rest").exists()
    assert tree.remove("/srv/link")
    assert (outside / "data").exists()
    for path in ("/srv/../etc", "srv", "/srv/.", "/"):
        with pytest.raises(OSError, match="plain absolute path"), tree.parent(path):
            pass
    with pytest.raises(OSError, match="another file system"), Tree("/", ()).opened("/proc/self"):
        pass


def test_accounts_of_the_cluster_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users that a person made stay; members and homes of those that were there are as before."""
    tree = keep(root, monkeypatch)
    (root / "etc/passwd").write_text(
        PASSWD.replace("/home/ubuntu", "/shared/ubuntu")
        + "slurm:x:64030:64030::/nonexistent:/bin/false\nmysql:x:101:102::/nonexistent:/bin/false\n"
        + "alice:x:2001:2001::/home/alice:/bin/bash\nsecond:x:1001:1001::/home/second:/bin/bash\n"
    )
    (root / "etc/group").write_text(
        "root:x:0:\nadm:x:4:ubuntu,alice,second\nubuntu:x:1000:\nmysql:x:102:\nalice:x:2001:\nteam:x:3001:alice\n"
    )
    (root / "etc/shadow").write_text("root:*:1::\nubuntu:*:1::\nmysql:!:1::\nalice:*:1::\nsecond:$y$:1::\n")
    for name, noted in (("users.json", ["alice", "ubuntu"]), ("groups.json", ["team"])):
        (root / "var/lib/stampworks" / name).write_text(json.dumps(noted))
    ours = giving(tree).look()
    assert (ours.users, ours.groups) == (["alice", "mysql", "slurm"], ["alice", "mysql", "team"])
    assert (ours.uids, ours.homes) == ([101, 2001, 64030], ["/home/alice"])
    before = look(Tree(str(root), ()))
    assert before.users["ubuntu"][5] == "/shared/ubuntu"
    kept = found.read(tree)
    assert kept
    accounts.give_back(tree, ours.users, ours.groups, ours.noted, {"users": kept.users, "groups": kept.groups})
    assert (root / "etc/passwd").read_text() == (PASSWD + "second:x:1001:1001::/home/second:/bin/bash\n")
    assert (root / "etc/group").read_text() == GROUP.replace("4:ubuntu", "4:ubuntu,second")
    assert (root / "etc/shadow").read_text() == "root:*:1::\nubuntu:*:1::\nsecond:$y$:1::\n"
    assert (root / "etc/shadow").stat().st_mode & 0o777 == 0o640


def test_the_key_of_the_cluster_goes(root: Path) -> None:
    """Entries of the operator stay, also those of later; a file that only the cluster needed goes."""
    authorized, key = root / "root/.ssh/authorized_keys", root / "etc/stampworks/cluster.pub"
    key.parent.mkdir()
    key.write_text("ssh-ed25519 ours\n")
    tree = Tree(str(root), ())
    authorized.write_text("ssh-ed25519 operator\nssh-ed25519 ours\nssh-ed25519 ours later\n")
    forget_key(tree, ["/root/.ssh", "/root/.ssh/authorized_keys"])
    assert authorized.read_text() == "ssh-ed25519 operator\nssh-ed25519 ours later\n"
    authorized.write_text("ssh-ed25519 ours\n")
    forget_key(tree, ["/root"])
    assert not authorized.parent.exists()


def test_lines_of_fstab() -> None:
    """Only lines between the marks of roles go."""
    theirs = "UUID=1 / ext4 defaults 0 1\n"
    ours = "# Stampworks: begin, written by the scratch role\nUUID=2 /scratch\\040disk ext4 nofail 0 2\n"
    ours += "# Stampworks: end of scratch\n"
    assert mounts.split_fstab(theirs + ours + "tmpfs /t tmpfs\n") == (theirs + "tmpfs /t tmpfs\n", ["/scratch disk"])
    points = ["/", "/scratch disk", "/mnt/theirs", "/run/stampworks/usr", "/scratchy"]
    now = {point: ["x", "ext4"] for point in points}
    assert mounts.of_cluster(["/scratch disk"], {"/": ["x", "ext4"]}, now) == ["/run/stampworks/usr", "/scratch disk"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/local/lib/x", False),
        ("/usr/local/bin", True),
        ("/usr/share/doc", True),
        ("/usr/share/pam-configs/x", False),
        ("/opt/new", False),
        ("/opt/a/b/c/d", True),
        ("/scratch", False),
        ("/mounted/x", True),
        ("/root/.cache/x", True),
    ],
)
def test_places_that_no_list_covers_count_as_there(path: str, expected: bool) -> None:
    """Nothing is removed that may have been there."""
    listed = {"/usr", "/usr/local/bin", "/opt", "/opt/a", "/opt/a/b", "/opt/a/b/c", "/mounted", "/root"}
    assert places.was_there(path, listed, ["/", "/mounted"]) == expected


def test_processes_of_the_cluster() -> None:
    """With what they started; never this program's own session, or the first process."""
    rows = [(1, 0, 0, "/sbin/init"), (10, 1, 0, "/usr/sbin/sshd"), (11, 10, 0, "/usr/bin/python3")]
    rows += [(20, 1, 0, "/usr/sbin/slurmd"), (21, 20, 0, "/usr/bin/sleep"), (22, 21, 500, "/usr/bin/sleep")]
    rows += [(30, 1, 2001, "/usr/bin/bash"), (40, 1, 1000, "/usr/bin/vim")]
    there = {row[0]: Process(row[0], row[1], row[2], (row[3],)) for row in rows}
    files = {"/usr/sbin/slurmd", "/usr/sbin/sshd", "/sbin/init"}
    assert processes.left_over(there, [2001], files, 11) == [20, 21, 22, 30]
    assert processes.left_over(there, [], ["/nothing"], 11) == []


def test_processes_are_seen() -> None:
    """A program, and the script of an interpreter."""
    with subprocess.Popen(["sh", "/dev/stdin"], stdin=subprocess.PIPE) as shell:
        try:
            seen = processes.processes()[shell.pid]
            assert seen.parent == os.getpid()
            assert seen.uid == os.getuid()
            assert "/dev/stdin" in seen.programs
            assert shell.pid in processes.left_over({shell.pid: seen}, [], ["/dev/stdin"], os.getpid())
        finally:
            shell.kill()


@pytest.mark.parametrize(
    ("name", "is_kernel"),
    [
        ("linux-image-6.12.43-amd64", True),
        ("linux-modules-nvidia-570-6.8.0-45-generic", True),
        ("linux-headers-6.12.43", False),
        ("kernel.x86_64", True),
        ("kernel6.12.x86_64", True),
        ("kernel-core.x86_64", True),
        ("kernel-modules-extra.x86_64", True),
        ("kernel-devel.x86_64", False),
        ("kernel-headers.x86_64", False),
    ],
)
def test_kernels_stay(name: str, is_kernel: bool) -> None:
    assert bool(packages.kept([name], {})) == is_kernel


def test_differences_of_packages() -> None:
    """New, lost, and another version; settings that a removed package left count, too."""

    def row(version: str, state: str = "installed") -> list[str]:
        return [version, "install", state]

    before = {"a": row("1"), "b": row("1"), "c": row("1"), "d": row("1", "config-files")}
    now = {"a": row("1"), "b": row("2"), "d": row("1", "config-files"), "e": row("3"), "f": row("1", "config-files")}
    assert packages.differences(before, now) == [
        "e 3 is new",
        "c 1 is gone",
        "b was 1 and is 2",
        "settings of f are new",
    ]


def test_differences_of_services() -> None:
    """Instances belong to their template, and units without a file come and go."""
    before = {"a.service": ["enabled", True], "b.service": ["disabled", False], "user@.service": ["static", False]}
    before |= {"c.service": ["enabled", True], "session.scope": ["", True]}
    now = {"a.service": ["enabled", False], "b.service": ["enabled", True], "user@.service": ["static", False]}
    now |= {"user@1000.service": ["", True], "run-theirs.service": ["", True], "slurmd.service": ["enabled", True]}
    now |= {"ours@.service": ["static", False], "ours@1.service": ["", True]}
    assert services.differences(before, now) == [
        "ours@.service is new",
        "ours@1.service is new",
        "slurmd.service is new",
        "a.service ran and does not run",
        "b.service was disabled and is enabled",
        "c.service is gone",
    ]
    assert services.enabled_since(before, now) == ["b.service"]


def test_kernel_settings_of_roles_are_known() -> None:
    """Each setting that a role writes is in the table, and so it is restored."""
    texts = [path.read_text() for path in (ROOT / "playbooks/roles").glob("*/templates/sysctl.conf.j2")]
    texts += [path.read_text() for path in (ROOT / "playbooks/roles").glob("*/defaults/main.yml")]
    names = {name for text in texts for name in re.findall(r"^ *((?:net|vm|kernel|fs)\.[\w.{} ]+?) *[:=]", text, re.M)}
    assert {"net.core.somaxconn", "net.ipv4.conf.{{ name }}.arp_ignore"} <= names
    known = [pattern.replace("*", "{{ name }}") for pattern in mounts.SYSCTLS]
    assert names <= {*known}


def test_the_program_runs_with_python_3_9() -> None:
    """Its syntax, and that it imports nothing but the standard library; it refuses wrong words."""
    for path in keeper.FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.startswith(keeper.PACKAGE) or node.module.split(".")[0] in sys.stdlib_module_names
    argv = [sys.executable, "-I", "-S", "-", "give-back", "--protect", "relative"]
    said = subprocess.run(argv, input=keeper.program(), capture_output=True, text=True, timeout=30)
    assert said.returncode == 2
    assert said.stderr.splitlines()[-1] == "keeper: error: --protect takes an absolute path"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            Answer(HOST, 255, "", "Connection refused"),
            "203.0.113.4: cannot give it back as it was found: Connection refused",
        ),
        (
            Answer(HOST, 0, "[]", ""),
            "203.0.113.4: cannot give it back as it was found: it answers something else than JSON",
        ),
        (
            Answer(HOST, 1, '{"failed": ["/scratch stays mounted: target is busy"], "kept": []}', ""),
            "203.0.113.4: cannot give it back as it was found: /scratch stays mounted: target is busy\n"
            "  hint: remove the causes, and destroy again",
        ),
        (
            Answer(HOST, 0, '{"differences": []}', ""),
            "203.0.113.4: cannot compare it with what was there: it answers something else than differences",
        ),
    ],
)
def test_answers_of_hosts_are_not_trusted(answer: Answer, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal names host, step and reason."""
    monkeypatch.setattr(keeper, "ask", lambda *_: answer)
    with pytest.raises(HostError) as refused:
        keeper.give_back(HOSTS, HOST)
    assert str(refused.value) == error


def test_the_answer_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options become arguments, and what was kept is said with its reason."""
    asked: list[Any] = []
    text = json.dumps(
        {"kept": [{"what": "/srv", "why": "it is protected"}, 1], "differences": {"files": ["x is new", 2]}}
    )

    def ask(hosts: Hosts, host: Host, argv: list[str], given: str, timeout_s: float) -> Answer:
        asked.append(argv)
        return Answer(host, 0, text, "")

    monkeypatch.setattr(keeper, "ask", ask)
    given = keeper.give_back(HOSTS, HOST, ["/srv"], keep_packages=True)
    assert given == keeper.GivenBack((keeper.Kept("/srv", "it is protected"),), ("x is new",))
    assert asked == [["python3", "-I", "-S", "-", "give-back", "--keep-packages", "--protect=/srv"]]
