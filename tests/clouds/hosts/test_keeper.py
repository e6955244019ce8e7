"""A host that is given back as it was found: real machines, real roles, real packages, over ssh."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stampworks.clouds.hosts import keeper
from stampworks.clouds.hosts.errors import HostError

from tests.clouds.hosts.plain import LISTING, PACKAGES, Plain, plain_hosts

pytestmark = pytest.mark.cluster

SYSTEMS_OWN = re.compile(
    r"/(etc/(ld\.so\.cache|\.pwd\.lock|stampworks/services/sshd/supervise/.*|(passwd|group|shadow|gshadow|subuid|subgid)-)"
    r"|var/(lib/(dpkg|apt|ucf|pam|python)|cache|log)|run|usr/.*/__pycache__|root/\.cache)(?=/|$)"
)
"""Files in which the system and the package manager keep notes of their own."""
OPERATOR = """
mkdir -p /srv/data /opt/theirs /home/operator
echo theirs >/srv/data/file; echo theirs >/opt/theirs/file; echo theirs >/home/operator/file; echo first >/root/notes
groupadd --gid 3000 ops; useradd --uid 1500 --gid 3000 --no-create-home operator
printf '# theirs\\n' >/etc/fstab; printf 'theirs\\n' >/etc/motd
"""
OPERATOR_MEANWHILE = """
echo second >>/root/notes; echo new >/home/operator/new; echo more >>/srv/data/file
echo '# a second key' >>/root/.ssh/authorized_keys; mkdir /srv/more; echo theirs >/srv/more/file
setsid setpriv --reuid operator --clear-groups sleep 54321 >/dev/null 2>&1 </dev/null &
"""
SERVICE: dict[str, Any] = {
    "awaits": [],
    "limits": {},
    "directories": {},
    "configuration": [],
    "once": False,
    "before_mounts": False,
    "answers": "",
    "settle_s": 0.3,
}
MEANWHILE = {
    "/srv/more",
    "/srv/more/file",
    "/home/operator/new",
    "/srv/data/file",
    "/root/notes",
    "/root/.ssh/authorized_keys",
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    """A host of an operator, with the base system."""
    with plain_hosts(tmp_path_factory.mktemp("plain"), 1) as made:
        made.shell(OPERATOR)
        yield made


def paths(listing: set[str]) -> set[str]:
    """Return the paths of lines that find and sha256sum print, without files that the system changes by itself."""
    found = {line.split("  ", 1)[1] if "  /" in line else line.split(" ", 1)[0] for line in listing}
    return {path for path in found if not SYSTEMS_OWN.match(path)}


def stamp(plain: Plain) -> None:
    """Do what the roles of a cluster do, by their own modules, and run what its jobs leave."""
    node = plain.host.inside
    written: list[dict[str, Any]] = [
        {"path": "/etc/motd", "content": "ours\n"},
        {"path": "/etc/hostname", "content": "other\n"},
        {"path": "/etc/ssh/sshd_config.d/60-stampworks.conf", "content": "# ours\n"},
        {"path": "/etc/apt/sources.list.d/stampworks.sources", "content": f"{PACKAGES}\n"},
        {"path": "/etc/sysctl.d/60-stampworks-base.conf", "content": "net.ipv4.tcp_syn_retries = 3\n"},
        {"path": "/usr/local/libexec/stampworks/program", "content": "#!/bin/sh\nsleep 65432\n", "mode": "0755"},
        {"path": "/usr/local/lib/python3.13/dist-packages/ours.py", "content": ""},
        {"path": "/var/log/stampworks", "directory": True},
    ]
    then = [
        ["hostname", "--file", "/etc/hostname"],
        ["sysctl", "--quiet", "--load", "/etc/sysctl.d/60-stampworks-base.conf"],
    ]
    program = ["/usr/local/libexec/stampworks/program"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("files", {"name": "base", "files": written, "then": then}),
        ("packages", {"install": ["slurmd", "munge", "nano"], "record": False}),
        (
            "accounts",
            {
                "users": [{"name": "alice", "uid": 2001, "home": ""}],
                "groups": [
                    {"name": "team", "gid": 3001, "users": ["alice"]},
                    {"name": "ops", "gid": 3000, "users": ["alice"]},
                ],
                "shell": "/bin/sh",
            },
        ),
        ("mounts", {"mounts": [_bind("/exports/shared", "/shared"), _bind("/exports/shared", "/mnt/deep")]}),
        ("service_unit", {**SERVICE, "name": "ours", "command": program, "state": "started", "enabled": True}),
    ]
    for name, arguments in calls:
        answer = plain.cluster.module(node, name, arguments)
        assert not answer.get("failed"), (name, answer)
    plain.shell("mkdir -p /etc/stampworks && echo test >/etc/stampworks/cluster")
    plain.shell("echo 'ssh-ed25519 ours' | tee /etc/stampworks/cluster.pub >>/root/.ssh/authorized_keys")
    plain.shell("echo hers >/home/alice/file; install -d -o slurm -g slurm /var/spool/slurmd /var/log/slurm")
    plain.shell("setsid setpriv --reuid alice --clear-groups sleep 65433 >/dev/null 2>&1 </dev/null &")


def _bind(source: str, path: str) -> dict[str, str]:
    return {"source": source, "path": path, "type": "none", "options": "bind"}


def test_a_host_is_given_back_as_it_was(plain: Plain) -> None:
    """By its own words and by a list of all its files, also where attempts were killed; what an operator did stays."""
    hosts, host = plain.hosts, plain.host
    before, hostname = plain.listing(), plain.shell("hostname")
    keeper.keep(hosts, host)
    assert keeper.differences(hosts, host) == ()
    stamp(plain)
    keeper.keep(hosts, host)  # changes nothing
    plain.shell(OPERATOR_MEANWHILE)
    said = keeper.differences(hosts, host)
    for line in (
        "user alice is new",
        "user slurm is new",
        "group ops has changed",
        "ours is new",
        "/shared is mounted",
        "net.ipv4.tcp_syn_retries was 6 and is 3",
        "/etc/motd has changed",
        "/usr/local/libexec/stampworks is new",
        "/etc/ssh/sshd_config.d/60-stampworks.conf is new",
        f"the host was called {hostname} and is called other",
    ):
        assert line in said
    assert [line for line in said if line.startswith("slurmd ")]
    program = plain.cluster.share / "keeper"
    program.write_text(keeper.program())
    answer = ""
    for seconds in (0.3, 0.6, 1.2, 2.4, 600):  # each attempt but the last is killed, on a slow machine more of them
        words = f"timeout --signal KILL {seconds} python3 -I -S - give-back --protect /srv/data"
        answer = plain.shell(f"{words} </exports/shared/keeper || true", timeout=700)
        if answer:
            break
    given = json.loads(answer)
    assert given["failed"] == []
    assert {(kept["what"], kept["why"]) for kept in given["kept"]} == {
        ("/srv/more", "new since, and not known to be of the cluster"),
        ("/srv/data", "it is protected"),
    }
    assert [line for lines in given["differences"].values() for line in lines] == ["/srv/more is new"]
    assert paths(before ^ plain.listing()) == MEANWHILE
    assert plain.shell("cat /root/notes") == "first\nsecond"
    assert plain.shell("grep -c ours /root/.ssh/authorized_keys || true") == "0"
    assert plain.shell("hostname") == hostname
    assert plain.shell("cat /etc/fstab /etc/motd") == "# theirs\ntheirs"
    assert plain.shell("ls /var/lib/stampworks /etc/stampworks/cluster 2>&1 | grep -c 'No such file'") == "2"
    running = plain.shell("ps -eo args")
    assert "sleep 54321" in running
    assert "6543" not in running
    until = time.monotonic() + 15  # its supervisor looks for folders every five seconds
    while "runsv ours" in plain.shell("ps -eo args"):
        assert time.monotonic() < until
        time.sleep(0.5)
    assert keeper.give_back(hosts, host) == keeper.GivenBack((), ())


def test_a_busy_mount_stops_the_rest(plain: Plain) -> None:
    """Nothing below it may be removed, and the list stays for the next attempt."""
    hosts, host = plain.hosts, plain.host
    keeper.keep(hosts, host)
    plain.cluster.module(host.inside, "mounts", {"mounts": [_bind("/exports/shared", "/shared")]})
    pid = plain.shell("echo ours >/etc/ours; cd /shared; setsid sleep 54322 >/dev/null 2>&1 </dev/null & echo $!")
    with pytest.raises(HostError, match=r"cannot give it back as it was found: /shared stays mounted: .*busy"):
        keeper.give_back(hosts, host)
    assert plain.shell("cat /etc/ours") == "ours"
    plain.shell(f"kill {pid}")
    assert keeper.give_back(hosts, host).kept == ()
    assert plain.shell("ls -d /shared /etc/ours 2>&1 | grep -c 'No such file'") == "2"


def test_a_second_run_at_the_same_time_is_refused(plain: Plain) -> None:
    plain.shell("setsid flock /var/lib sleep 3 >/dev/null 2>&1 </dev/null &")
    time.sleep(0.5)
    with pytest.raises(HostError, match="another run works on this host"):
        keeper.keep(plain.hosts, plain.host)


@pytest.mark.long
def test_the_roles_of_a_cluster_leave_nothing(tmp_path: Path) -> None:
    """The whole site playbook on plain hosts, with accounting and a user, and back."""
    with plain_hosts(tmp_path, 1, users=[{"name": "alice", "uid": 2001}]) as plain:
        hosts = plain.hosts
        before: dict[str, set[str]] = {}
        for host in hosts.machines:
            before[host.inside] = {*plain.cluster.shell(host.inside, LISTING).splitlines()}
            keeper.keep(hosts, host)

        def with_packages(inventory: dict[str, Any]) -> None:
            inventory["vars"]["base_packages_source"] = PACKAGES

        plain.cluster.play(with_packages)
        head = next(host for host in hosts.machines if host.group == "head")
        assert "gpu" in plain.cluster.shell(head.inside, "sinfo")
        remains: dict[str, set[str]] = {}
        for host in hosts.machines:
            given = keeper.give_back(hosts, host)
            after = {*plain.cluster.shell(host.inside, LISTING).splitlines()}
            kept = {f"{kept.what}: {kept.why}" for kept in given.kept}
            remains[host.inside] = kept | {*given.differences} | paths(before[host.inside] ^ after)
        assert remains == {host.inside: set() for host in hosts.machines}
