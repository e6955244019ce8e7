"""Changes of a cluster outside of its stack: one refresh reports them in words, and one `up` repairs them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from stampworks import machine_room as room
from stampworks.machine_room import network

from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    pools:
      - {{name: gpu, machine: sim-h100, count: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    users:
      - {{name: alice, uid: 2001, accounts: [research]}}
      - {{name: bob, uid: 2002, accounts: [research]}}
    scheduler:
      accounting: true
      protect: false
      accounts: [{{name: research}}]
    proof: {{level: none}}
"""
WAIT_S = 60
FOREIGN = (
    "mkdir -p /tmp/x/DEBIAN; printf 'Package: iperf3\\nVersion: 9.9\\nArchitecture: all\\nMaintainer: x\\n"
    "Description: x\\n' >/tmp/x/DEBIAN/control; dpkg-deb --build /tmp/x /tmp/x.deb; dpkg --install /tmp/x.deb"
)
SERVICES = "/etc/stampworks/services"
FAULTS = {
    "head": ("echo '# edited' >>/etc/slurm/slurm.conf",),
    "gpu-001": (
        "userdel alice",
        "echo '# edited' >>/etc/ssh/sshd_config.d/60-stampworks.conf",
        "dpkg --remove ethtool",
        FOREIGN,
        "sysctl --write net.core.somaxconn=100",
        f"sv stop {SERVICES}/metrics",
        f"touch {SERVICES}/boot-settings/down",
    ),
    "gpu-002": (
        f"sv stop {SERVICES}/slurmd",
        "echo '# edited' >>/run/slurm/conf/slurm.conf",
        "echo a-tampered-key >>/etc/slurm/slurm.key",
        "umount /shared",
        "ip link set rail1 down",
    ),
}
DRIFT = """\
cloud: gpu-001: rail0 is down
cloud: gpu-002: rail1 is down
system: gpu-001: /etc/ssh/sshd_config.d/60-stampworks.conf differs
system: gpu-001: boot-settings does not start at boot
system: gpu-001: kernel setting net.core.somaxconn is 100, not 4096
system: gpu-001: package ethtool is missing
system: gpu-001: package iperf3 is 9.9, the image had VERSION
system: gpu-001: user alice is missing
system: gpu-002: /etc/slurm/slurm.key differs
system: gpu-002: /run/slurm/conf/slurm.conf differs
system: head: /etc/slurm/slurm.conf differs
runtime: gpu-001: metrics does not run
runtime: gpu-001: rail0 is down
runtime: gpu-002: /shared is not mounted
runtime: gpu-002: rail1 is down
runtime: gpu-002: slurmd does not run
"""
NODE = (
    "find /etc /usr/local /var/lib/stampworks /var/lib/dpkg /tmp /root ! -path '/var/lib/stampworks/state*'"
    " ! -name health-drained ! -path /var/lib/stampworks -printf '%p %m %u %s %T@\\n' | sort; "
    "cat /proc/mounts; "
    "ps -eo args | grep -Ev 'sshd|ps -eo|grep|find /etc|health|nvidia-smi|<defunct>|^(df|tc|scontrol) |^sort$' | sort"
)
"""Traces that a look could leave on a node: files, mounts and processes, apart from Slurm's own."""


def lines(shown: str) -> list[str]:
    """Return the lines of all layers, each once. How Slurm sees a node is left out, because it depends on time."""
    found = {line.strip() for line in shown.splitlines() if re.match(r" +(cloud|system|runtime): ", line)}
    return sorted(line for line in found if "Slurm says" not in line)


def refresh(stack: Stack) -> str:
    done = stack.run("refresh", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    return stack


def submit(stack: Stack, *options: str) -> str:
    return stack.shell("head", f"runuser -u bob -- sbatch --parsable --output=/dev/null {' '.join(options)}")


def test_every_kind_of_drift_is_found_and_repaired(stamped: Stack) -> None:
    """Every fault is reported in its layer, and nothing else is. Then everything is repaired, and jobs continue."""
    past = submit(stamped, "--wrap=true")
    accounted = "sacct --noheader --allusers --allocations --parsable2 --format=jobid,state"
    wait_for(lambda: f"{past}|COMPLETED" in stamped.shell("head", accounted), WAIT_S)
    runs, waits = submit(stamped, "-w gpu-001 --wrap='sleep 900'"), submit(stamped, "--hold --wrap=true")
    queue = "squeue --noheader --sort=i --format='%i %T'"
    expected = f"{runs} RUNNING\n{waits} PENDING"
    wait_for(lambda: stamped.shell("head", queue) == expected, WAIT_S)

    for node, commands in FAULTS.items():
        stamped.shell(node, f"set -e; {'; '.join(commands)}")
    with stamped.entered():
        unplug = ["ip", "link", "set", network.port("gpu-001", "rail0"), "down"]
        subprocess.run([*room.reach(stamped.cluster), *unplug], check=True, timeout=30)
    before = {node: {*stamped.shell(node, NODE).splitlines()} for node in FAULTS}
    # a preview stores nothing of its look: a plain `up` after it knows only the cloud's state
    assert "system: head: /etc/slurm/slurm.conf differs" in stamped.passes("preview", "--refresh")
    assert "system: head: /etc/slurm/slurm.conf differs" not in stamped.preview()
    shown = refresh(stamped)
    assert lines(re.sub(r"the image had \S+", "the image had VERSION", shown)) == sorted(DRIFT.splitlines())
    after = {node: {*stamped.shell(node, NODE).splitlines()} for node in FAULTS}
    assert [after[node] ^ before[node] for node in FAULTS] == [set()] * len(FAULTS), "a look changes nothing on a node"
    assert "a-tampered-key" not in shown + str(stamped.resources())

    # a plain preview knows what the refresh found, and an up repairs it without looking again
    assert "system: head: /etc/slurm/slurm.conf differs" in stamped.preview()
    stamped.up()
    assert lines(refresh(stamped)) == []
    assert stamped.shell("head", queue) == expected
    assert f"{past}|COMPLETED" in stamped.shell("head", accounted)
    stamped.shell("head", f"scancel {runs} {waits}")


@pytest.mark.long
def test_nodes_that_cannot_be_looked_at_are_unknown(stamped: Stack) -> None:
    """A dead and a frozen node are reported by the cloud and by failed requests; `up` repairs both."""
    nodes = stamped.nodes()
    os.kill(nodes["gpu-001"]["pid"], signal.SIGKILL)
    os.kill(nodes["gpu-002"]["pid"], signal.SIGSTOP)
    done = stamped.run("preview", "--refresh")
    assert done.returncode == 0, done.stdout
    assert lines(done.stdout) == [
        "cloud: gpu-001: the node is dead",
        "cloud: gpu-002: the node is frozen",
        "cloud: gpu: 0 of 2 members",
        "runtime: gpu-[001-002]: unknown: the node is not up",
    ]
    done = stamped.run("up", "--refresh", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout
    assert {node["state"] for node in stamped.nodes().values()} == {"up"}


@pytest.mark.long
def test_a_room_that_is_gone_is_unknown(stamped: Stack) -> None:
    """A refresh of a stack whose machine room has ended reports it without failure."""
    stamped.end_room()
    assert "runtime: gpu-[001-002], head: unknown: the node is not up" in lines(refresh(stamped))
