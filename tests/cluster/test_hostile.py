"""A search for secrets in all wrong places of a cluster, whose nodes then become hostile."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from stampworks.declaration.values import user_name

from tests.cluster.stack import Stack, content
from tests.cluster.test_drift import lines

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PLANTED = "planted-by-the-test-of-secrets"
SAMPLE_S, YOUNG = 0.1, 10
LOGS = ("Marshaling property for RPC[", "Unmarshaling property for RPC[", "Planner decided to ")
"""Beginnings of lines in Pulumi's own log that contain its messages."""
LOOSE = ("sw-", "stampworks", "pulumi", "slurm", "tmp")  # files of ours, of Pulumi or of Python that could be in /tmp
# Secrets of a node: path and owner. No other user can read them.
ON_NODES = {
    "head": {
        "/etc/slurm/slurm.key": "600 slurm",
        "/etc/slurm/slurmdbd.conf": "600 slurm",
        "/etc/stampworks/database.sql": "600 mysql",
        "/etc/ssh/ssh_host_ed25519_key": "600 root",
    },
    "gpu-001": {"/etc/slurm/slurm.key": "600 slurm", "/etc/ssh/ssh_host_ed25519_key": "600 root"},
    "gpu-002": {"/etc/slurm/slurm.key": "600 slurm", "/etc/ssh/ssh_host_ed25519_key": "600 root"},
    "gpu-003": {"/etc/slurm/slurm.key": "600 slurm", "/etc/ssh/ssh_host_ed25519_key": "600 root"},
}


@dataclass
class Watched:
    """The stack, everything it printed, and every command line and environment there was meanwhile."""

    stack: Stack
    began: float = field(default_factory=time.time)
    said: dict[str, bytes] = field(default_factory=dict)
    processes: set[bytes] = field(default_factory=set)
    logged: list[str] = field(default_factory=list)
    """Pulumi's own log of the first `up`, at its most talkative."""

    def watch(self, over: threading.Event) -> None:
        """Watch young processes, which may still call exec, and a sample of the others."""
        looks: Counter[str] = Counter()
        while not over.wait(SAMPLE_S):
            for process in Path("/proc").glob("[0-9]*"):
                looks[process.name] += 1
                if looks[process.name] < YOUNG or looks[process.name] % YOUNG == 0:
                    self.processes.update(content(process / name) for name in ("cmdline", "environ"))

    def pulumi(self, *argv: str) -> None:
        done = self.stack.run(*argv)
        assert done.returncode == 0, done.stdout
        self.said["pulumi " + " ".join(argv)] = done.stdout.encode()

    def first_up(self) -> None:
        argv = ("up", "--yes", "--skip-preview", "-v=9", "--logtostderr")
        with self.stack.started(*argv, stderr=subprocess.PIPE) as engine:
            said, log = engine.communicate(timeout=self.stack.limit_s)
        assert engine.returncode == 0, said
        self.said["pulumi " + " ".join(argv)], self.logged = said.encode(), log.splitlines()

    def stampworks(self, *argv: str) -> None:
        done = self.stack.stampworks(*argv)
        assert done.returncode == 0, done.stderr
        self.said["stampworks " + " ".join(argv)] = (done.stdout + done.stderr).encode()

    def plant(self) -> None:
        """Start a process with a text on its command line, to see that the search finds it on a busy machine."""
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", PLANTED]) as planted:
            until = time.monotonic() + 50
            while time.monotonic() < until and not any(PLANTED.encode() in each for each in self.processes.copy()):
                time.sleep(SAMPLE_S)
            planted.kill()

    def secrets(self) -> dict[str, list[bytes]]:
        """Return for each secret the texts that would betray it: its lines, and other forms of it."""
        shown = self.stack.exported("--show-secrets")
        [keyring] = [one["outputs"] for one in shown if one["type"] == "stampworks:cluster:Keyring"]
        plain = {name: json.loads(keyring[name]["plaintext"]) for name in ("slurmKey", "databasePassword")}
        found = {name: [value.encode()] for name, value in plain.items()}
        found["slurmKey"] += [plain["slurmKey"][:64].encode(), base64.b64decode(plain["slurmKey"])[:32]]
        found["sshPrivateKey"] = key_lines(json.loads(keyring["sshPrivateKey"]["plaintext"]))
        for node in ON_NODES:
            found[f"host key of {node}"] = key_lines(self.stack.shell(node, "cat /etc/ssh/ssh_host_ed25519_key"))
        return found


def key_lines(text: str) -> list[bytes]:
    """Return the lines of a private key that differ from those of other keys."""
    return [line.encode() for line in text.splitlines()[2:-1]]


def betrayed(secrets: Mapping[str, list[bytes]], text: bytes) -> list[str]:
    return [name for name, forms in secrets.items() if any(form in text for form in forms)]


def files(*folders: Path) -> Iterator[Path]:
    """Yield all plain files of any owner, without following links."""
    for folder in folders:
        for top, _, names in os.walk(folder):
            yield from (path for name in names if (path := Path(top, name)).is_file() and not path.is_symlink())


@pytest.fixture(scope="module")
def watched(stack: Stack) -> Watched:
    """A cluster with accounting, after every kind of operation."""
    stack.edit(
        "/shared, protect: false}\n",
        "/shared, protect: false}\n    users: [{name: alice, uid: 2001, accounts: [research]}]\n",
    )
    stack.edit("count: 2", "count: 3")
    stack.edit("drain_timeout_minutes: 1,", "drain_timeout_minutes: 1, accounting: true, accounts: [{name: research}],")
    made, over = Watched(stack), threading.Event()
    watcher = threading.Thread(target=made.watch, args=(over,))
    watcher.start()
    try:
        made.first_up()
        made.pulumi("preview", "--diff", "--json")
        made.pulumi("preview", "--diff", "--refresh")
        made.pulumi("refresh", "--yes", "--diff")
        made.pulumi("stack", "export")
        made.pulumi("stack", "output", "--json")
        made.stampworks("plan", "-s", "test", "--json")
        made.stampworks("status", "-s", "test", "--json")
        made.stampworks("run", "-s", "test", "--", "env")
        made.plant()
    finally:
        over.set()
        watcher.join()
    return made


def test_the_search_finds_what_is_there(watched: Watched, tmp_path: Path) -> None:
    """A secret that was planted on a command line, in an output and in a file is found in all three."""
    secrets = {"planted": [PLANTED.encode()]}
    (tmp_path / "deep" / "down").mkdir(parents=True)
    (tmp_path / "deep" / "down" / "file").write_bytes(b"\0\xff" + PLANTED.encode())
    assert any(betrayed(secrets, process) for process in watched.processes)
    assert betrayed(secrets, b"x" + PLANTED.encode())
    assert [path.name for path in files(tmp_path) if betrayed(secrets, content(path))] == ["file"]
    assert all(len(form) >= 16 for forms in watched.secrets().values() for form in forms)


def test_nothing_that_is_printed_or_run_holds_a_secret(watched: Watched) -> None:
    """This covers outputs, command lines and environments of the toolkit, Pulumi, Ansible and nodes."""
    secrets = watched.secrets()
    assert {name: found for name, text in watched.said.items() if (found := betrayed(secrets, text))} == {}
    assert [each for each in watched.processes if betrayed(secrets, each)] == []
    everything = b"".join(watched.processes)
    assert all(mark in everything for mark in (b"ansible-playbook", b"slurmctld", b"bounded-ssh", b"pulumi")), "watched"


def test_only_pulumi_itself_logs_a_secret(watched: Watched) -> None:
    """Pulumi's log contains all its messages, as the docs warn; no log of the toolkit has a secret."""
    secrets = watched.secrets()
    betraying = [line for line in watched.logged if betrayed(secrets, line.encode())]
    assert any(line.startswith("{") for line in betraying), "it does no longer: take the warning out"
    assert [line for line in betraying if not message(line).startswith(LOGS)] == []


def message(line: str) -> str:
    return str(json.loads(line)["msg"]) if line.startswith("{") else line


def test_pulumi_state_is_encrypted(watched: Watched) -> None:
    """State, history, backups and logs contain no readable secret."""
    secrets = watched.secrets()
    kept = list(files(watched.stack.folder / "backend", watched.stack.folder / "home", watched.stack.folder / "stacks"))
    assert any("history" in str(path) for path in kept)
    assert any("ciphertext" in path.read_text(errors="replace") for path in kept)
    assert [str(path) for path in kept if betrayed(secrets, content(path))] == []


def test_secrets_are_where_they_must_be_and_nowhere_else(watched: Watched) -> None:
    """Files with secrets are readable only by their owner, on this machine and on nodes, including logs and
    leftovers."""
    secrets, nodes = watched.secrets(), watched.stack.nodes()
    for node, expected in ON_NODES.items():
        listed = watched.stack.shell(node, f"stat -c '%n %a %U' {' '.join(expected)}")
        assert dict(line.split(" ", 1) for line in listed.splitlines()) == expected
    holding = [path for path in files(watched.stack.state) if betrayed(secrets, content(path))]
    assert [str(path) for path in holding if path.stat().st_mode & 0o077] == []
    allowed = {name for expected in ON_NODES.values() for name in expected} | {"/ssh/id_ed25519"}
    assert [str(path) for path in holding if not str(path).endswith(tuple(allowed))] == []
    # places that are not on a node's disk: its /run, /tmp and shared memory
    roots = [Path(f"/proc/{nodes[node]['pid']}/root") for node in ON_NODES]
    volatile = files(*(root / name for root in roots for name in ("run", "tmp", "dev/shm", "var/log", "root")))
    assert [str(path) for path in volatile if betrayed(secrets, content(path))] == []
    loose = [path for path in Path("/tmp").iterdir() if path.name.startswith(LOOSE)]
    loose = [path for path in loose if path.lstat().st_mtime > watched.began]
    assert [str(path) for path in files(*loose) if betrayed(secrets, content(path))] == []


def test_no_login_of_a_node_can_be_declared(watched: Watched) -> None:
    """The declaration refuses all accounts and groups that a node has itself."""
    named = watched.stack.shell("head", "cut -d: -f1 /etc/passwd /etc/group").split()
    taken = []
    for name in set(named) - {"alice"}:
        try:
            user_name(name)
        except Exception:  # noqa: S112  # refused, as it must be
            continue
        taken.append(name)
    assert taken == []


# --- from here on, nodes lie


def endless(path: str) -> str:
    """Return a command that replaces a program with an endless `yes`."""
    return f"printf '#!/bin/sh\\nexec yes\\n' > {path}; chmod 755 {path}"


GARBAGE = """#!/usr/bin/python3
import socket
garbage = b"\\x1b[2Jgarbage\\n" * 4096
server = socket.create_server(("", 22))
while True:
    client, _ = server.accept()
    try:
        while True:
            client.sendall(garbage)
    except OSError:
        pass
"""
END_YES = 'for each in /proc/[0-9]*; do if [ "$(cat $each/comm)" = yes ]; then kill -9 ${each#/proc/}; fi; done'
END_SSHD = 'for each in /proc/[0-9]*; do if [ "$(cat $each/comm)" = sshd ]; then kill ${each#/proc/}; fi; done; sleep 2'


def test_a_head_that_never_ends_is_given_up(watched: Watched) -> None:
    """`status` ends, reports it, and shows no raw output."""
    watched.stack.shell("head", f"mv /usr/bin/scontrol /usr/bin/scontrol.real; {endless('/usr/bin/scontrol')}")
    try:
        done = watched.stack.stampworks("status", "-s", "test")
    finally:
        watched.stack.shell("head", "mv /usr/bin/scontrol.real /usr/bin/scontrol")
    assert done.returncode == 3
    assert "head: scontrol said more than 64 MiB and was ended" in done.stdout


def test_a_head_that_lies_is_shown_as_it_is(watched: Watched) -> None:
    """Slurm's text about a node cannot control a terminal."""
    trick = {"state": ["DOWN\x1b[2J"], "reason": "\x9b31m\u202eowned\x07\ud800", "gres": "gpu:" * 999}
    answer = json.dumps({"nodes": [{"name": "gpu-001", **trick}, {"name": ["x"], "state": {}}, {}]})
    script = f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n"
    watched.stack.shell("head", f"cat > /tmp/scontrol <<'EOS'\n{script}EOS\nchmod 755 /tmp/scontrol")
    watched.stack.shell("head", "mv /usr/bin/scontrol /usr/bin/scontrol.real; mv /tmp/scontrol /usr/bin/scontrol")
    try:
        shown = [watched.stack.stampworks("status", "-s", "test", *more) for more in ((), ("--json",))]
    finally:
        watched.stack.shell("head", "mv /usr/bin/scontrol.real /usr/bin/scontrol")
    for done in shown:
        assert done.returncode == 1, done.stderr
        assert "owned" in done.stdout
        assert all(line.isprintable() for line in done.stdout.split("\n"))


# node -> start of its lie, end of its lie, and the message about it
LIARS = {
    "gpu-002": (
        f"mv /usr/bin/python3 /usr/bin/python3.real; {endless('/usr/bin/python3')}",
        f"mv /usr/bin/python3.real /usr/bin/python3; {END_YES}",
        "broke on the node: ...",
    ),
    "gpu-003": (
        f"mv /usr/sbin/sshd /usr/sbin/sshd.real; mv /tmp/garbage /usr/sbin/sshd; {END_SSHD}",
        f"mv /usr/sbin/sshd.real /usr/sbin/sshd; {END_SSHD}",
        "cannot be reached",
    ),
}


def test_nodes_that_lie_to_up_are_named_and_harm_no_other(watched: Watched) -> None:
    """`up` names each lying node and its fault, and the others take jobs; after the repair, `up` converges."""
    watched.stack.shell("gpu-003", f"cat > /tmp/garbage <<'EOS'\n{GARBAGE}EOS\nchmod 755 /tmp/garbage")
    watched.stack.edit("[research]}]", "[research]}, {name: bob, uid: 2002}]")  # any change that makes the playbook run
    for node, (begin, _, _) in LIARS.items():
        watched.stack.shell(node, begin)
    try:
        done = watched.stack.run("up", "--yes", "--skip-preview")
        there = watched.stack.stampworks("run", "-s", "test", "--nodes", "1", "--", "hostname")
    finally:
        for node, (_, end, _) in LIARS.items():
            watched.stack.shell(node, end)
        watched.stack.edit(", {name: bob, uid: 2002}]", "]")
    assert done.returncode != 0
    for node, (_, _, expected) in LIARS.items():
        assert re.search(f"{node}: .*\n?.*{re.escape(expected)}", done.stdout), done.stdout
    assert "gpu-001: " not in done.stdout
    assert "\x1b" not in done.stdout
    assert there.returncode == 0, there.stderr
    watched.stack.up()
    assert lines(watched.stack.run("refresh", "--yes", "--skip-preview").stdout) == []
