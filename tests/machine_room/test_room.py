"""Rooms and nodes on this machine: their properties, and their traces after deletion."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stampworks import machine_room as room
from stampworks.clouds.local.members import members
from stampworks.machine_room.processes import from_instance
from stampworks.machine_room.specs import VolumeSpec
from stampworks.plan import Member

from tests.machine_room.stamping import Stamp, group, rails
from tests.project import listening, wait_for

pytestmark = pytest.mark.cluster


class Host:
    """Traces that a room could leave on the host."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self.addresses = _output("ip", "-brief", "address")
        self.namespaces = _output("ip", "netns", "list")
        self.mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if _has(line, marks)]
        self.processes = [argv for argv in map(_command_line, Path("/proc").glob("[0-9]*")) if _has(argv, marks)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Host) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return str(vars(self))


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def _has(text: str, marks: tuple[str, ...]) -> bool:
    return any(mark in text for mark in marks)


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _gone(instance: str) -> bool:
    process = from_instance(instance)
    return process is None or not process.alive


def _spaces(process: int) -> set[str]:
    kinds = ("mnt", "net", "uts", "ipc", "pid")
    return {str(Path(f"/proc/{process}/ns/{kind}").readlink()) for kind in kinds}


def _all_spaces() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/*"):
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue
    return found


def _ssh(stamp: Stamp, member: Member, *command: str, host_key: str = "") -> subprocess.CompletedProcess[str]:
    """Log in as the toolkit does: with the room's key, to a host with a known key."""
    roster = members(stamp.cluster, "")
    known = Path(roster.identity_file).with_name("known")
    known.write_text(f"{member.address} {host_key or member.host_key}\n")
    options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "BatchMode=yes", "ConnectTimeout=10"]
    argv = [*roster.reach, "ssh", "-F", "none", "-i", roster.identity_file]
    argv += [word for option in options for word in ("-o", option)]
    argv += [f"{roster.user}@{member.address}", *command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30)


def test_a_room_leaves_the_host_as_it_was(stamp: Stamp, state: Path) -> None:
    """Processes, namespaces, mounts, addresses and files are those of before."""
    marks = (str(state), stamp.cluster)
    before, spaces_before = Host(marks), _all_spaces()
    instances = stamp.up(2)
    assert Host(marks).addresses == before.addresses, "nothing of a room shows on the host's network"
    assert Host(marks).namespaces == before.namespaces
    assert Host(marks).mounts == before.mounts, "nothing of a room is mounted on the host"
    found = room.read_room(stamp.cluster)
    assert found is not None
    pids = [int(instance.partition("-")[0]) for instance in (found.instance, *instances.values())]
    spaces = set().union(*map(_spaces, pids)) - spaces_before
    assert len(spaces) == 5 * 3
    stamp.remove()
    assert all(_gone(instance) for instance in (found.instance, *instances.values()))
    assert Host(marks) == before
    assert not spaces & _all_spaces()
    assert list((state / "rooms").iterdir()) == []
    stamp.remove()  # removing again succeeds


def test_nodes_answer_with_the_keys_the_room_gave_them(stamp: Stamp) -> None:
    """The roster names every node with its address and the host key that its sshd then really shows."""
    stamp.up(2)
    roster = members(stamp.cluster, "")
    assert [(member.name, member.group, member.address) for member in roster.members] == [
        ("gpu-001", "gpu", "10.77.1.1"),
        ("gpu-002", "gpu", "10.77.1.2"),
    ]
    first, second = roster.members
    assert _ssh(stamp, first, "hostname", "&&", "id", "-un").stdout == "gpu-001\nroot\n"
    assert "verification failed" in _ssh(stamp, first, "true", host_key=second.host_key).stderr
    assert first.host_key != second.host_key
    assert stamp.said[0] == "machine room started"
    assert [said.partition(" ")[2] for said in stamp.said[1:]] == ["up (1 of 2)", "up (2 of 2)"]


def test_a_node_is_a_machine_of_its_own(stamp: Stamp) -> None:
    """A node has its own init, network, devices and disk, and sees no disks, sysctls or nodes of the host."""
    stamp.up(2)
    assert stamp.run("gpu-001", "ps", "-o", "comm=", "1").strip() == "runsvdir"
    interfaces = stamp.run("gpu-001", "ls", "/sys/class/net").split()
    assert {"lo", "eth0", "rail0", "rail1"} <= set(interfaces)
    assert not any(name.startswith(("p", "r0", "mgmt")) for name in interfaces)
    devices = stamp.run("gpu-001", "ls", "/dev").split()
    assert {"null", "urandom", "pts", "tty0", "tty1"} <= set(devices)
    assert not any(name.startswith(("sd", "vd", "nvme", "tty2")) for name in devices)
    assert "inet6" not in stamp.run("gpu-001", "ip", "address")
    stamp.run("gpu-001", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    with pytest.raises(AssertionError, match="Read-only file system"):
        stamp.run("gpu-001", "sh", "-c", "echo 1 >/proc/sys/vm/swappiness")
    stamp.run("gpu-001", "touch", "/root/mine")
    with pytest.raises(AssertionError, match="No such file"):
        stamp.run("gpu-002", "ls", "/root/mine")


def test_a_second_ensure_changes_nothing(stamp: Stamp) -> None:
    """No node is touched, no message is printed, and no drift is reported."""
    instances = stamp.up(3)
    said = list(stamp.said)
    assert stamp.up(3) == instances
    assert stamp.said == said
    assert stamp.drift(3) == []


def test_a_node_that_lost_power_comes_back_with_its_disk(stamp: Stamp) -> None:
    """A killed node is seen as dead, leaves the roster, and is another instance of the same machine afterwards."""
    instances = stamp.up(2)
    stamp.run("gpu-002", "sh", "-c", "echo kept >/root/file")
    key = stamp.state("gpu-002").host_key
    os.kill(stamp.state("gpu-002").pid, signal.SIGKILL)
    wait_for(lambda: _gone(instances["gpu-002"]), 10)
    assert stamp.drift(2) == ["gpu-002: the node is dead"]
    assert [member.name for member in members(stamp.cluster, "").members] == ["gpu-001"]
    again = stamp.ensure_nodes(2)
    assert again["gpu-001"] == instances["gpu-001"]
    assert again["gpu-002"] != instances["gpu-002"]
    assert stamp.said[-1] == "gpu-002 up (2 of 2)"
    assert stamp.run("gpu-002", "cat", "/root/file") == "kept\n"
    assert stamp.state("gpu-002").host_key == key
    assert stamp.drift(2) == []


def test_a_frozen_node_is_seen_and_power_cycled(stamp: Stamp) -> None:
    """A node that hangs is not up, though its processes are there."""
    instances = stamp.up(1)
    os.kill(stamp.state("gpu-001").pid, signal.SIGSTOP)
    wait_for(lambda: stamp.state("gpu-001").state == "frozen", 10)
    assert stamp.drift(1) == ["gpu-001: the node is frozen"]
    assert members(stamp.cluster, "").members == ()
    assert stamp.ensure_nodes(1) != instances
    assert stamp.drift(1) == []


def test_the_end_of_the_outer_process_is_the_end_of_everything(stamp: Stamp) -> None:
    """Killing a single process ends all nodes; `ensure` restores them with their disks and shared directories."""
    instances = stamp.up(2)
    stamp.ensure_folder("exports", "shared")
    stamp.run("gpu-001", "sh", "-c", "echo kept | tee /root/file >/exports/shared/file")
    found = room.read_room(stamp.cluster)
    assert found is not None
    os.kill(int(found.instance.partition("-")[0]), signal.SIGKILL)
    wait_for(lambda: all(_gone(instance) for instance in (found.instance, *instances.values())), 10)
    assert room.read_room(stamp.cluster) is None
    assert [node.state for node in room.read_nodes(stamp.cluster)] == ["dead", "dead"]
    assert members(stamp.cluster, "").members == ()
    with pytest.raises(room.RoomError, match=f"cluster {stamp.cluster}: the machine room is not running") as refused:
        stamp.ensure_nodes(2)
    assert str(refused.value).endswith("hint: run: pulumi up")
    again = stamp.up(2)
    assert not set(again.values()) & set(instances.values())
    assert stamp.run("gpu-001", "cat", "/root/file") == "kept\n"
    assert stamp.run("gpu-002", "cat", "/exports/shared/file") == "kept\n"
    assert stamp.drift(2) == []


def test_growing_and_shrinking_leaves_the_other_nodes_alone(stamp: Stamp) -> None:
    """Nodes are created with their leaf and trunks, and deleted with their disks."""
    instances = stamp.up(2)
    assert stamp.up(3).items() > instances.items()
    assert stamp.drift(3) == []
    stamp.run("gpu-003", "touch", "/root/mine")
    room.end_nodes(stamp.cluster, stamp.claim, ["gpu-003"], stamp.said.append)
    assert stamp.said[-1] == "gpu-003 removed"
    stamp.ensure_room(2)
    assert stamp.drift(2) == []
    assert [node.name for node in room.read_nodes(stamp.cluster)] == ["gpu-001", "gpu-002"]
    assert stamp.up(3).items() > instances.items()
    with pytest.raises(AssertionError, match="No such file"):
        stamp.run("gpu-003", "ls", "/root/mine")


def test_a_door_opens_again_with_the_room(stamp: Stamp) -> None:
    """The port is the same, because users have noted it."""
    stamp.ensure_room(1)
    port = room.open_door(stamp.cluster, "ssh-head", "127.0.0.1", 22)
    assert ("127.0.0.1", port) in listening()
    room.end_room(stamp.cluster, stamp.claim)
    wait_for(lambda: ("127.0.0.1", port) not in listening(), 10)
    stamp.ensure_room(1)
    assert ("127.0.0.1", port) in listening()


def test_a_room_has_one_owner(stamp: Stamp) -> None:
    """Another stack with the same cluster name can neither use nor delete the room."""
    stamp.up(1)
    other = dataclasses.replace(stamp, claim="stack other of project test")
    with pytest.raises(room.RoomError) as refused:
        other.ensure_room(1)
    assert str(refused.value) == (
        f"cluster {stamp.cluster}: the machine room belongs to another stack: to stack test of project test\n"
        "  hint: give one of the two clusters another name, or destroy the other stack first;\n"
        f"  if that stack is lost: stampworks sweep {stamp.cluster}"
    )
    with pytest.raises(room.RoomError, match="belongs to another stack"):
        other.ensure_folder("exports", "shared")
    stamp.ensure_folder("exports", "shared")
    room.end_nodes(stamp.cluster, other.claim, ["gpu-001"], other.said.append)
    room.end_folder(stamp.cluster, other.claim, "exports", "shared")
    room.end_room(stamp.cluster, other.claim)
    other.remove()
    assert room.read_folder(stamp.cluster, "exports", "shared")
    assert room.rooms() == [room.RoomEntry(stamp.cluster, stamp.claim, runs=True, nodes=1)]
    assert stamp.drift(1) == []


def test_a_volume_outlives_its_node(stamp: Stamp) -> None:
    """A new disk finds the content of the volume; a node without its volume is incomplete."""
    state = (VolumeSpec("state", "/var/lib/state"),)
    volume = stamp.ensure_folder("volumes", "gpu-001-state")
    stamp.ensure_room(1)
    stamp.ensure_nodes(1, volumes=state)
    stamp.run("gpu-001", "sh", "-c", "echo kept >/var/lib/state/file; touch /root/mine")
    assert (volume / "file").read_text() == "kept\n"
    stamp.run("gpu-001", "umount", "/var/lib/state")
    assert stamp.drift(1) == ["gpu-001: the node has lost the mount on /var/lib/state"]
    stamp.ensure_nodes(1, volumes=state)
    assert stamp.run("gpu-001", "cat", "/var/lib/state/file", "/root/mine") == "kept\n"
    stamp.image = room.NodeImage("another", stamp.image.layers, stamp.image.packages)
    stamp.renew_nodes(1, "gpu-001", volumes=state)
    assert stamp.run("gpu-001", "cat", "/var/lib/state/file") == "kept\n"
    with pytest.raises(AssertionError, match="No such file"):
        stamp.run("gpu-001", "ls", "/root/mine")


def test_services_of_a_node_with_a_volume_end_before_its_disk_goes(stamp: Stamp) -> None:
    """Data that they have in memory reaches the volume."""
    state = (VolumeSpec("state", "/var/lib/state"),)
    volume = stamp.ensure_folder("volumes", "gpu-001-state")
    stamp.ensure_room(1)
    stamp.ensure_nodes(1, volumes=state)
    script = "trap 'echo saved >/var/lib/state/file; exit 0' TERM; while :; do sleep 0.1; done"
    make = f"cd /etc/stampworks; mkdir new; printf '#!/bin/sh\\n%s\\n' \"{script}\" >new/run; chmod +x new/run; "
    stamp.run(
        "gpu-001",
        "sh",
        "-c",
        make + "mv new services/saver; until sv check /etc/stampworks/services/saver; do sleep 0.1; done",
    )
    room.end_nodes(stamp.cluster, stamp.claim, ["gpu-001"], stamp.said.append)
    assert (volume / "file").read_text() == "saved\n"


def test_an_interrupted_boot_ends_soon(stamp: Stamp, tmp_path: Path) -> None:
    """The caller can end the wait for a hanging node, and learns its name."""
    layer = tmp_path / "layer"
    (layer / "usr/sbin").mkdir(parents=True)
    init = layer / "usr/sbin/stampworks-init"
    init.write_text("#!/bin/sh\nexec sleep 1000\n")
    init.chmod(0o755)
    stamp.image = room.NodeImage("hanging", (str(layer), *stamp.image.layers), stamp.image.packages)
    stamp.ensure_room(1)

    class Interrupted(Exception):  # noqa: N818
        pass

    def interrupt(line: str) -> None:
        raise Interrupted(line)

    with pytest.raises(Interrupted, match="waiting for gpu-001 \\(0 of 1 up\\)"):
        room.ensure_nodes(stamp.cluster, group(1), rails(1), stamp.image, interrupt)


def test_a_node_that_loses_its_host_key_is_still_known(stamp: Stamp) -> None:
    """The room keeps its identity, even if the node changes its disk."""
    stamp.up(1)
    before = stamp.state("gpu-001").host_key
    stamp.run("gpu-001", "sh", "-c", "rm /etc/ssh/ssh_host_*; mkfifo /etc/ssh/ssh_host_ed25519_key.pub")
    assert stamp.state("gpu-001").host_key == before


@pytest.mark.parametrize("runs", [True, False])
def test_a_link_on_a_node_leads_nowhere_on_this_host(
    stamp: Stamp, tmp_path: Path, key: tuple[str, str], runs: bool
) -> None:
    """A new key is given to the node, and not to whomever its disk points at."""
    stamp.up(1)
    (tmp_path / "victim").mkdir()
    stamp.run("gpu-001", "sh", "-c", f"rm -rf /root/.ssh; ln -s {tmp_path / 'victim'} /root/.ssh")
    if not runs:
        os.kill(stamp.state("gpu-001").pid, signal.SIGKILL)
        wait_for(lambda: not stamp.state("gpu-001").alive, 10)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "new"], check=True, timeout=30)
    stamp.private_key, stamp.public_key = (tmp_path / "new").read_text(), (tmp_path / "new.pub").read_text()
    with contextlib.suppress(room.RoomError):  # a running node may refuse; only it is affected
        stamp.up(1)
    assert list((tmp_path / "victim").iterdir()) == []


def test_a_node_of_another_image_runs_on_until_it_is_its_turn(stamp: Stamp) -> None:
    """A disk belongs to an image: an outdated disk is reported, left alone, and renewed on request."""
    instances = stamp.up(2)
    stamp.run("gpu-001", "touch", "/root/mine")
    stamp.image = room.NodeImage("another", stamp.image.layers, stamp.image.packages)
    assert stamp.ensure_nodes(2) == instances
    assert stamp.outdated(2) == dict.fromkeys(["gpu-001", "gpu-002"], "it runs another image")
    stamp.renew_nodes(2, "gpu-001")
    assert stamp.outdated(2) == {"gpu-002": "it runs another image"}
    assert stamp.state("gpu-002").instance == instances["gpu-002"]
    with pytest.raises(AssertionError, match="No such file"):
        stamp.run("gpu-001", "ls", "/root/mine")
    assert stamp.drift(2) == []


def test_a_dead_node_of_another_image_gets_a_new_disk_at_once(stamp: Stamp) -> None:
    """No running job could be disturbed."""
    stamp.up(1)
    stamp.run("gpu-001", "touch", "/root/mine")
    os.kill(stamp.state("gpu-001").pid, signal.SIGKILL)
    wait_for(lambda: not stamp.state("gpu-001").alive, 10)
    stamp.image = room.NodeImage("another", stamp.image.layers, stamp.image.packages)
    assert stamp.outdated(1) == {}, "nobody has to wait for its turn"
    stamp.ensure_nodes(1)
    assert stamp.state("gpu-001").image == "another"
    with pytest.raises(AssertionError, match="No such file"):
        stamp.run("gpu-001", "ls", "/root/mine")


def test_a_node_can_be_given_up(stamp: Stamp) -> None:
    """The node counts as outdated until it has a new disk, or the request is cancelled."""
    instances = stamp.up(2)
    room.condemn_nodes(stamp.cluster, ["gpu-001", "gpu-002", "gpu-009"], "alice says: fans")
    room.condemn_nodes(stamp.cluster, ["gpu-002"], "")
    assert stamp.outdated(2) == {"gpu-001": "alice says: fans"}
    assert stamp.ensure_nodes(2) == instances
    stamp.renew_nodes(2, "gpu-001", "gpu-002")
    assert stamp.outdated(2) == {}
    assert stamp.state("gpu-001").instance != instances["gpu-001"]
    assert stamp.state("gpu-002").instance == instances["gpu-002"], "it was not outdated"


def test_shared_directories_appear_in_running_nodes(stamp: Stamp) -> None:
    """A directory shared after a node's boot appears at once, and all nodes see the same files."""
    stamp.up(2)
    path = stamp.ensure_folder("exports", "shared")
    assert room.read_folder(stamp.cluster, "exports", "shared") == path
    stamp.run("gpu-001", "sh", "-c", "echo hello >/exports/shared/file")
    assert stamp.run("gpu-002", "cat", "/exports/shared/file") == "hello\n"
    room.end_folder(stamp.cluster, stamp.claim, "exports", "shared")
    assert room.read_folder(stamp.cluster, "exports", "shared") is None
    assert stamp.run("gpu-002", "ls", "/exports") == ""


def test_a_new_key_replaces_the_old_one_without_a_restart(stamp: Stamp, key: tuple[str, str], tmp_path: Path) -> None:
    """Running nodes accept the new key, and no other."""
    instances = stamp.up(1)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "new"], check=True, timeout=30)
    stamp.private_key, stamp.public_key = (tmp_path / "new").read_text(), (tmp_path / "new.pub").read_text()
    assert stamp.up(1) == instances
    (member,) = members(stamp.cluster, "").members
    assert _ssh(stamp, member, "hostname").stdout == "gpu-001\n"
    Path(members(stamp.cluster, "").identity_file).write_text(key[0])
    assert "Permission denied" in _ssh(stamp, member, "hostname").stderr


def test_two_rooms_use_the_same_addresses(new_stamp: Callable[[], Stamp]) -> None:
    """Clusters share nothing: the same address is another node in each."""
    first, second = new_stamp(), new_stamp()
    first.up(1)
    second.up(1)
    first.run("gpu-001", "touch", "/root/first")
    keys = {stamp.cluster: members(stamp.cluster, "").members[0] for stamp in (first, second)}
    assert _ssh(first, keys[first.cluster], "ls", "/root").stdout == "first\n"
    assert _ssh(second, keys[second.cluster], "ls", "/root").stdout == ""
    first.remove()
    assert second.drift(1) == []


def test_processes_that_ensure_at_once_do_not_collide(stamp: Stamp, tmp_path: Path) -> None:
    """Three processes that ensure the same nodes get the same ones, each started once."""
    stamp.ensure_room(3)
    program = tmp_path / "ensure.py"
    wanted = f"{stamp.cluster!r}, {group(3)!r}, {rails(3)!r}, {stamp.image!r}, str"
    program.write_text(
        textwrap.dedent(f"""
        from stampworks.machine_room import NodeImage, ensure_nodes
        from stampworks.machine_room.specs import GroupSpec, NodeSpec, RailSpec, TrunkSpec
        print(sorted(ensure_nodes({wanted}).items()))
        """)
    )
    running = [subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = {process.communicate(timeout=60)[0] for process in running}
    assert len(results) == 1
    assert re.findall(r"gpu-\d+", results.pop()) == ["gpu-001", "gpu-002", "gpu-003"]
    assert stamp.drift(3) == []


def test_a_starter_that_dies_leaves_no_room_and_no_node_behind(stamp: Stamp) -> None:
    """After a kill at any moment, the next command can finish the room."""
    stamp.ensure_room(4)
    program = (
        "import sys; sys.path[:0] = []; from stampworks.machine_room import *; "
        "from stampworks.machine_room.specs import *; "
        f"ensure_nodes({stamp.cluster!r}, {group(4)!r}, {rails(4)!r}, {stamp.image!r}, str)"
    )
    for delay in (0.2, 0.3, 0.4, 0.5):
        process = subprocess.Popen([sys.executable, "-c", program])
        time.sleep(delay)
        process.kill()
        process.wait(timeout=60)
    stamp.ensure_nodes(4)
    assert stamp.drift(4) == []
    inits = stamp.run("gpu-001", "ps", "-e", "-o", "comm=").split().count("runsvdir")
    assert inits == 1
    found = room.read_room(stamp.cluster)
    assert found is not None
    known = {int(node.instance.partition("-")[0]) for node in room.read_nodes(stamp.cluster)}
    assert _children_named("runsvdir", int(found.instance.partition("-")[0])) == known


def _children_named(name: str, parent: int) -> set[int]:
    pids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(pid) for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name}


def test_nodes_that_do_not_boot_are_named_with_what_they_said(stamp: Stamp, tmp_path: Path) -> None:
    """All failures at once, each with the end of the node's console."""
    layer = tmp_path / "layer"
    (layer / "usr/sbin").mkdir(parents=True)
    init = layer / "usr/sbin/stampworks-init"
    init.write_text("#!/bin/sh\necho no disk to speak of\nexit 1\n")
    init.chmod(0o755)
    broken = room.NodeImage("broken", (str(layer), *stamp.image.layers), stamp.image.packages)
    stamp.ensure_room(2)
    good, stamp.image = stamp.image, broken
    with pytest.raises(room.RoomError) as failed:
        stamp.ensure_nodes(2)
    assert str(failed.value) == (
        f"cluster {stamp.cluster}: 2 of 2 nodes did not boot: gpu-001: its first process ended\n"
        "    no disk to speak of\n"
        "  gpu-002: its first process ended\n"
        "    no disk to speak of"
    )
    stamp.image = good
    stamp.ensure_nodes(2)
    assert stamp.drift(2) == []
