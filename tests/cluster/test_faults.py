"""Every fault is real, as other tools show; it is found by its check, and leaves no trace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stampworks.clouds.local.faults import FAULTS
from stampworks.machine_room.network import port, trunk_ends

from bench.campaign import judged
from tests.project import wait_for

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = [pytest.mark.cluster, pytest.mark.long]

DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    network: {{cidr: 10.97.0.0/16}}
    pools:
      - {{name: gpu, machine: sim-h100, count: 4}}
    fabric: {{rail_rate_mbps: 200, leaf_nodes: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, protect: false}}
    scheduler: {{protect: false}}
    proof: {{level: none}}
"""
RUN = (
    "import sys; from stampworks import machine_room as room; "
    "done = room.run_in_node(sys.argv[1], sys.argv[2], ['sh', '-c', sys.argv[3]], 60); print(done.stdout, end='')"
)
SWITCH = (
    "import subprocess, sys; from stampworks import machine_room as room; "
    "subprocess.run([*room.reach(sys.argv[1]), 'sh', '-c', sys.argv[2]], check=True)"
)
RECORD = (
    "import sys; from stampworks.clouds.local.faults import record; from stampworks.clouds.faults import Injected; "
    "from stampworks.machine_room.room import of_cluster; "
    "record.add(of_cluster(sys.argv[1]), Injected('bit-flip', 'gpu-002', '', None))"
)
JOB = "srun --nodelist={where} --nodes=1 --chdir=/ --input=none "
PROBE = "(sleep 0.5; head -c 2000000 /dev/zero) >/shared/probe; sleep 0.5; stat -c %s /shared/probe; rm /shared/probe"
ROUTES = (
    "own=$(ip -oneline -4 address show rail0 | grep -o '[0-9.]*/' | tr -d /); "
    'for last in 1 2 3 4; do ip route get "${{own%.*}}.$last"; done'
)
SEEN: dict[str, tuple[str, str, str]] = {
    "rail-slow": ("switch", "tc qdisc show dev {port}", r"rate (?!200Mbit)\d+Mbit"),
    "rail-down": ("node", "cat /sys/class/net/{rail}/carrier", "^0$"),
    "trunk-slow": (
        *("switch", "tc qdisc show dev {up}; tc qdisc show dev {down}"),
        r"rate (?!400)\d+Mbit.*\n.*rate (?!400)\d+Mbit",
    ),
    "mtu-mismatch": ("node", "ip link show {rail}", "mtu {severity} "),
    "packet-loss": ("switch", "nft list ruleset", r'"{port}"[^}}]*numgen random mod 10000 < [1-9]\d+ counter .*drop'),
    "rail-bypassed": ("node", ROUTES, "^10.* dev eth0 "),
    "slurmd-dead": ("node", "pgrep -x slurmd || echo none", "^none$"),
    "slurm-key-wrong": ("node", "tail -c 11 /etc/slurm/slurm.key", "^another key$"),
    "slurm-conf-differs": ("node", "tail -n 1 /run/slurm/conf/slurm.conf", "^MessageTimeout=47$"),
    "clock-ahead": ("head", "a=$(" + JOB + "date +%s); echo $((a - $(date +%s)))", r"^([1-9]|[12]\d|30)$"),
    "disk-full": ("node", "dd if=/dev/zero of=/tmp/p bs=1M count=4 2>&1; rm /tmp/p", "No space left on device"),
    "shared-missing": ("node", "mountpoint /shared 2>&1", "is not a mountpoint"),
    "shared-slow": ("node", "stat --file-system --format=%T /shared", "^fuse"),
    "torn-checkpoint": ("node", PROBE, r"^1\d{{6}}$"),
    "memlock-small": ("head", JOB + "sh -c 'ulimit -l'", "^{severity}$"),
    "shm-small": ("node", "df --block-size=1M --output=size /dev/shm", "^ *{severity}$"),
    "interface-wrong": ("head", JOB + "env", "^GLOO_SOCKET_IFNAME=eth0$"),
    "library-skew": ("node", "dpkg --list libopenblas0-pthread", r"\+skewed"),
    "bit-flip": ("head", JOB + "env", "^STAMPWORKS_FAULT_BITFLIP=1$"),
    "gpus-missing": ("node", "nvidia-smi -L | wc -l", "^[67]$"),
    "ecc-errors": ("node", "nvidia-smi", " {severity}$"),
    "xid": ("node", "dmesg", r"Xid \(PCI:.*\): 79, .*simulated"),
    "throttling": ("node", "nvidia-smi --query-gpu=clocks_throttle_reasons.active --format=csv", "^0x0+40$"),
}
"""Place, command and symptom of each fault, which is visible only while the fault is injected."""
LASTING = [name for name, fault in FAULTS.items() if not fault.once]
QUICKLY_CAUGHT = ("rail-slow", "memlock-small", "shared-missing")
TRACES = (
    "find /etc /usr/local /opt -type f ! -name '*.pyc' ! -path '*/supervise/*' -exec sha256sum {} + | sort -k 2; "
    "find /etc /usr/local /exports /var/tmp /tmp ! -path '*/supervise*' ! -name '*.pyc' ! -name __pycache__ "
    "-printf '%p %m %u %g\\n' | sort; cat /var/lib/stampworks/accelerators.json | python3 -m json.tool; "
    "sed s/,uuid=on// /proc/mounts; ip -oneline link | sed 's/ state .*//'; ip -brief address; "
    "ip route; tc qdisc show; "
    "dpkg-query --show; "
    "prlimit --pid $(pgrep -x slurmd) --memlock --noheadings; sv status /etc/stampworks/services/* | sed 's/:.*//'"
)
"""Traces that a fault could leave on a node."""


def python(stack: Stack, program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, stack.cluster, *arguments]
    done = subprocess.run(command, env=stack.environment(), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def stampworks(stack: Stack, *argv: str, ends_with: tuple[int, ...] = (0,)) -> Any:
    """Return the JSON output of a verb."""
    done = subprocess.run(
        [sys.executable, "-m", "stampworks.cli.main", *argv, "-s", "test", "--json"],
        cwd=stack.folder,
        env=stack.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in ends_with, done.stderr
    return json.loads(done.stdout)


def traces(stack: Stack, node: str) -> str:
    switches = python(stack, SWITCH, "tc qdisc show; ip -brief link; nft list ruleset")
    return switches + python(stack, RUN, node, TRACES)


def well(stack: Stack) -> bool:
    found = stampworks(stack, "status", ends_with=(0, 1, 3))
    return bool(found["verdict"] == "pass")


def injected(stack: Stack) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stampworks(stack, "fault", "list")["injected"]
    return found


@pytest.fixture(scope="module")
def stamped(stack: Stack) -> Stack:
    stack.declare(DECLARATION.format(cluster=stack.cluster))
    stack.up()
    return stack


@pytest.fixture
def sound(stamped: Stack) -> Iterator[Stack]:
    """Lend the cluster, healthy before and after."""
    wait_for(lambda: well(stamped), 60)
    yield stamped
    stampworks(stamped, "fault", "clear")


def is_seen(stack: Stack, one: dict[str, Any]) -> bool:
    if one["fault"] in ("power-loss", "node-frozen"):
        wanted = {"power-loss": "dead", "node-frozen": "frozen"}[one["fault"]]
        return bool(stack.nodes()[one["where"]]["state"] == wanted)
    if one["fault"] == "cpu-slow":
        return letters(stack, one["where"]) > {"T"}
    place, command, pattern = SEEN[one["fault"]]
    words = {**one, "port": port(one["where"], one["rail"]), "severity": f"{one['severity'] or 0:.0f}"}
    if one["rail"]:
        words["up"], words["down"] = trunk_ends(int(one["rail"][-1]), one["where"])
    command, pattern = command.format(**words), pattern.format(**words) if "{" in pattern else pattern
    if place == "switch":
        said = python(stack, SWITCH, command)
    else:
        said = python(stack, RUN, "head" if place == "head" else one["where"], command)
    return re.search(pattern, said, re.MULTILINE) is not None


def letters(stack: Stack, node: str) -> set[str]:
    """The states in which a node's slurmd is found, from outside."""
    space = _space(Path("/proc", str(stack.nodes()[node]["pid"])))
    [slurmd] = [path for path in Path("/proc").glob("[0-9]*") if _space(path) == space and _name(path) == "slurmd"]
    found = set()
    for _ in range(200):
        found.add(slurmd.joinpath("stat").read_text().rpartition(")")[2].split()[0])
        time.sleep(0.003)
    return found


def _space(process: Path) -> str:
    try:
        return str((process / "ns" / "pid").readlink())
    except OSError:  # the process has just ended
        return ""


def _name(process: Path) -> str:
    return (process / "comm").read_text().strip()


def _changes(stack: Stack, before: dict[str, str]) -> list[str]:
    lines = {node: (set(text.splitlines()), set(traces(stack, node).splitlines())) for node, text in before.items()}
    return [f"{node}: {line}" for node, (one, other) in lines.items() for line in sorted(one ^ other)]


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_is_there_and_goes_without_a_trace(sound: Stack, name: str) -> None:
    """The place and severity are random. A repeated injection changes nothing."""
    watched = {node: traces(sound, node) for node in sound.nodes() if node != "head"}
    one = stampworks(sound, "fault", "inject", name)
    assert is_seen(sound, one), one
    assert [(each["fault"], each["where"], each["there"]) for each in injected(sound)] == [(name, one["where"], True)]
    same = ["--node", one["where"], *(["--rail", one["rail"]] if one["rail"] else [])]
    if FAULTS[name].severity:
        same += ["--severity", str(one["severity"])]
    if name not in ("power-loss", "node-frozen"):  # such a node cannot be broken again
        stampworks(sound, "fault", "inject", name, *same)
        assert is_seen(sound, one), one
        assert len(injected(sound)) == 1
    cleared = stampworks(sound, "fault", "clear")["cleared"]
    assert [(each["fault"], each["where"]) for each in cleared] == [(name, one["where"])]
    wait_for(lambda: well(sound), 60)
    assert injected(sound) == []
    if name not in ("power-loss", "node-frozen"):
        assert not is_seen(sound, one), one
    deadline = time.monotonic() + 20
    while (left := _changes(sound, watched)) and time.monotonic() < deadline:
        time.sleep(0.5)  # services are still starting
    assert left == []


def test_several_at_once_and_one_that_was_repaired(sound: Stack) -> None:
    """Each fault is cleared by itself; faults repaired by `up`, or never injected, are not reported as cleared."""
    slow = stampworks(sound, "fault", "inject", "rail-slow", "--node", "gpu-001", "--rail", "rail0")
    flip = stampworks(sound, "fault", "inject", "bit-flip", "--node", "gpu-001")
    wrong = stampworks(sound, "fault", "inject", "interface-wrong", "--node", "gpu-001")
    stampworks(sound, "fault", "clear", "bit-flip")
    assert [is_seen(sound, one) for one in (slow, flip, wrong)] == [True, False, True]
    python(sound, RECORD)  # as if it had been killed right after the record
    done = sound.run("up", "--refresh", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout
    assert {(each["fault"], each["there"]) for each in injected(sound)} == {
        ("rail-slow", False),
        ("interface-wrong", False),
        ("bit-flip", False),
    }
    assert len(stampworks(sound, "fault", "clear")["cleared"]) == 3


def proof(stack: Stack, one: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether the expected check caught the fault, and whether it named only the culprit."""
    if one["check"] in ("health", "status"):
        wait_for(lambda: not well(stack), 90)
        rows = stampworks(stack, "status", ends_with=(0, 1, 3))["nodes"]
        bad = {row["name"]: row for row in rows if row["verdict"] != "pass"}
        by = {row["reason"]["by"] for row in bad.values() if row["reason"]}
        return bool(bad) and (one["check"] == "status" or by == {"health"}), set(bad) == {one["where"]}
    certificate = stampworks(stack, "qualify", ends_with=(0, 1, 3))
    failed = [each for each in certificate["findings"] if each["verdict"] == "fail"]
    return judged(one, failed, {node["name"] for node in certificate["nodes"] if node["verdict"] == "fail"})


@pytest.mark.parametrize(
    "name", [name if name in QUICKLY_CAUGHT else pytest.param(name, marks=pytest.mark.long) for name in LASTING]
)
def test_a_fault_is_caught_by_its_check(sound: Stack, name: str) -> None:
    """The check blames the right node. Afterwards the node passes and takes jobs again."""
    one = stampworks(sound, "fault", "inject", name)
    begun = time.monotonic()
    caught, right = proof(sound, one)
    print(f"{name} on {one['where']} {one['rail']} ({one['severity']}): caught {caught}, culprit {right}, ", end="")
    print(f"{time.monotonic() - begun:.0f} s")
    assert (caught, right) == (True, True)
    stampworks(sound, "fault", "clear")
    if not well(sound):
        stampworks(sound, "qualify", "--level", "quick", ends_with=(0, 1, 3))
        wait_for(lambda: well(sound), 90)


def test_wrong_setting_of_all_nodes_is_found_by_nic_counters(sound: Stack) -> None:
    """All nodes have the same wrong setting: nothing is slow and programs that name their network are right, but the
    byte counters of NICs show it."""
    nodes = [name for name in sound.nodes() if name != "head"]
    for node in nodes:
        stampworks(sound, "fault", "inject", "interface-wrong", "--node", node)
    certificate = stampworks(sound, "qualify", ends_with=(1,))
    failed = [each for each in certificate["findings"] if each["verdict"] != "pass"]
    assert [(each["check"], each["verdict"], each["nodes"]) for each in failed] == [("fabric", "fail", [])]
    assert failed[0]["measured"] < failed[0]["expected"] / 100
    assert {node["verdict"] for node in certificate["nodes"]} == {"pass"}
    stampworks(sound, "fault", "clear")
    certificate = stampworks(sound, "qualify")
    [passed] = [each for each in certificate["findings"] if each["check"] == "fabric"]
    assert (passed["verdict"], sorted(passed["nodes"])) == ("pass", nodes)
    assert passed["measured"] >= passed["expected"]
