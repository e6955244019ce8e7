"""Nodes: keep them running as declared, read their state, end them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from stampworks.machine_room import cgroups, disks, files, hands, network, retention
from stampworks.machine_room.commands import ENVIRONMENT, MAPPED_ROOT
from stampworks.machine_room.disks import NodeDisk, NodeImage, disk_of
from stampworks.machine_room.errors import RoomError
from stampworks.machine_room.network import InterfaceState, Links
from stampworks.machine_room.processes import Process
from stampworks.machine_room.room import Progress, Room, enter, of_cluster
from stampworks.machine_room.specs import Commission, GroupSpec, NodeSpec, RailSpec, read_network

AUTHORIZE = """
mkdir -p -m 700 /root/.ssh && printf %s "$1" >/root/.ssh/.new && mv /root/.ssh/.new /root/.ssh/authorized_keys
"""


@dataclass(frozen=True)
class RailState:
    """State of a node's rail."""

    interface: str
    up: bool
    """Whether both ends are up, and the switch's end is plugged into the node's leaf."""
    rate_mbps: int
    """Rate of the slower end; 0 when an end is not shaped."""


@dataclass(frozen=True)
class NodeState:
    """State of a node."""

    name: str
    state: Literal["up", "frozen", "dead"]
    instance: str
    """Identity that changes at each start of the node; empty when it is dead."""
    pid: int
    """Pid of its first process on this host; 0 when it is dead."""
    address: str
    rail_addresses: tuple[str, ...]
    rails: tuple[RailState, ...]
    host_key: str
    image: str
    lost: tuple[str, ...]
    """Mount points of the room on which nothing is mounted."""

    @property
    def alive(self) -> bool:
        """Whether the node runs."""
        return self.state == "up"

    @property
    def group(self) -> str:
        """Return the node's group.

        Nodes are named <group>-<NNN>, except the node head of the group head.
        """
        return self.name.rpartition("-")[0] or self.name


def ensure_nodes(
    cluster: str, group: GroupSpec, rails: Sequence[RailSpec], image: NodeImage, progress: Progress
) -> dict[str, str]:
    """Make each node of the group run as declared, and return their instances.

    A missing node gets a new disk. A dead or frozen node, or a node without one of its mounts, starts again; it keeps
    its disk unless that is outdated. The interfaces of a running node are repaired without disturbing it. A running
    outdated node is left alone, because jobs may run on it: see renew_nodes.
    """
    room = of_cluster(cluster)
    with room.locked():
        retention.claim(room, image)
        late = _outdated(room, group, image)
        keep_running(room, _without_nodes(group, [name for name in late if _runs(room, name)]), rails, image, progress)
        return {node.name: _running(room, node.name).instance for node in group.nodes}


def renew_nodes(
    cluster: str,
    group: GroupSpec,
    rails: Sequence[RailSpec],
    image: NodeImage,
    names: Collection[str],
    progress: Progress,
) -> None:
    """Give these nodes of the group new disks if they are outdated, running or not."""
    room = of_cluster(cluster)
    with room.locked():
        retention.claim(room, image)
        others = [node.name for node in group.nodes if node.name not in names]
        keep_running(room, _without_nodes(group, others), rails, image, progress)


def new_nodes(cluster: str, group: GroupSpec, image: NodeImage) -> list[str]:
    """Return the nodes of a group that the next start gives a new disk."""
    room = of_cluster(cluster)
    late = _outdated(room, group, image)
    names = [node.name for node in group.nodes]
    return [name for name in names if not disk_of(room, name).commission or (name in late and not _runs(room, name))]


def starting_nodes(cluster: str, group: GroupSpec) -> list[str]:
    """Return the nodes of a group that ensure_nodes would start."""
    room = of_cluster(cluster)
    return [node.name for node in group.nodes if not _is_whole(disk_of(room, node.name))]


def outdated_nodes(cluster: str, group: GroupSpec, image: NodeImage) -> dict[str, str]:
    """Return the running nodes of a group that need a new disk, and why."""
    room = of_cluster(cluster)
    return {name: why for name, why in _outdated(room, group, image).items() if _runs(room, name)}


def condemn_nodes(cluster: str, names: Collection[str], why: str) -> None:
    """Mark nodes as outdated until they get a new disk; without a reason, remove the mark."""
    room = of_cluster(cluster)
    with room.locked():
        for name in names:
            disk = disk_of(room, name)
            if not why:
                disk.condemned_file.unlink(missing_ok=True)
            elif disk.commission:
                files.write(disk.condemned_file, why)


def keep_running(room: Room, group: GroupSpec, rails: Sequence[RailSpec], image: NodeImage, progress: Progress) -> None:
    """Make every node of the group run on a current disk, in any room. The caller holds its lock."""
    nodes = group.nodes
    commissions = {node.name: disks.commission(node, group, image) for node in nodes}
    _remove(room, list(_outdated(room, group, image)))
    off = [node for node in nodes if not _is_whole(disk_of(room, node.name))]
    for node in off:
        _power_off(disk_of(room, node.name))
        _prepare(room, commissions[node.name])
    _authorize(room, [node for node in nodes if node not in off])
    _plug_in(room, nodes, rails)
    _boot(room, [_boot_of(room, commissions[node.name], image) for node in off], len(nodes), progress)


def power_on(room: Room, name: str) -> None:
    """Boot a node that is off with its current disk. Do nothing if it runs or does not exist.

    The caller holds the lock.
    """
    disk = disk_of(room, name)
    if (wanted := disk.commission) and not disk.process:
        _boot(room, [_boot_of(room, wanted, retention.image(wanted.image))], 1, lambda _: None)


def end_nodes(cluster: str, claim: str, names: Sequence[str], progress: Progress) -> None:
    """End nodes, and remove their disks and unused trunks. Skip missing nodes."""
    room = of_cluster(cluster)
    with room.locked():
        if not room.is_ours(claim):
            return
        leaves = {found.node.leaf for name in names if (found := disk_of(room, name).commission)}
        for name in _remove(room, names):
            progress(f"{name} removed")
        if leaves and room.process:
            hands.arrange(room, [network.without_idle_trunks(leaves, hands.look(room)[""])])


def read_nodes(cluster: str) -> tuple[NodeState, ...]:
    """Return the state of every node that has a disk. All are dead when the room is."""
    room = of_cluster(cluster)
    found = hands.look(room) if room.process else {}
    names = sorted(path.name for path in room.nodes.iterdir()) if room.nodes.is_dir() else []
    states = [_state(disk_of(room, name), found.get("", {}), found.get(name, {})) for name in names]
    return tuple(state for state in states if state)


def run_in_node(cluster: str, node: str, argv: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program of the node in the node as root, without ssh."""
    return run_inside(of_cluster(cluster), node, argv, timeout)


def run_inside(room: Room, node: str, argv: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program in a node of any room, as run_in_node does."""
    spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--")
    command = [*enter(_running(room, node)), *spaces, *argv]
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT, cwd="/"
        )
    except subprocess.TimeoutExpired as late:
        raise RoomError(node, f"{argv[0]} did not finish within {timeout:g} s") from late


def node_drift(state: NodeState, rails: Sequence[RailSpec]) -> tuple[str, ...]:
    """Describe each difference between an up-to-date node and its declaration; empty if there is none."""
    if state.state != "up":
        return (f"the node is {state.state}",)
    drift = []
    drift += [f"the node has lost the mount on {point}" for point in state.lost]
    for rail, found in zip(rails, state.rails, strict=False):
        if not found.up:
            drift.append(f"{rail.interface} is down")
        elif found.rate_mbps != rail.rate_mbps:
            drift.append(f"{rail.interface} carries {found.rate_mbps} Mb/s, not {rail.rate_mbps}")
    return tuple(drift)


# -- on and off


def _prepare(room: Room, wanted: Commission) -> None:
    """Ensure that the node has a disk, and that the room's key opens it."""
    disk = disk_of(room, wanted.node.name)
    key = room.public_key_file.read_text()
    if disk.commission is None:
        files.remove_tree(disk.folder, wanted.node.name)  # an incomplete disk
        disks.make(disk, wanted, key)
    else:
        disks.authorize(disk.upper, key)


def _authorize(room: Room, nodes: Sequence[NodeSpec]) -> None:
    """Give running nodes the room's key if it is new. Write it inside the node, since its disk is in use."""
    key = room.public_key_file.read_text()
    for node in nodes:
        if disks.authorized(disk_of(room, node.name)) != key:
            done = run_inside(room, node.name, ["sh", "-c", AUTHORIZE, "sh", key], timeout=30)
            if done.returncode != 0:
                raise RoomError(node.name, "cannot give it the cluster's new key", done.stderr)


def _plug_in(room: Room, nodes: Sequence[NodeSpec], rails: Sequence[RailSpec]) -> None:
    planned = read_network(room.network_file.read_text())
    spaces = [
        network.CommandBatch(node.name, ()) for node in nodes
    ]  # create the nodes' namespaces before plugging anything into them
    ports = network.ports(nodes, rails, hands.look(room)[""])
    hands.arrange(room, [*spaces, ports, *(network.interfaces(node, planned, rails) for node in nodes)])


def _boot_of(room: Room, wanted: Commission, image: NodeImage) -> hands.Boot:
    disk = disk_of(room, wanted.node.name)
    return hands.Boot(
        name=wanted.node.name,
        address=wanted.node.address,
        layers=image.layers,
        upper=str(disk.upper),
        work=str(disk.work),
        root=str(disk.root),
        console=str(disk.console),
        exports=str(room.exports),
        volumes=tuple((str(room.volumes / one.of_node(wanted.node.name)), one.mount) for one in wanted.volumes),
        packages=image.packages,
        # the only device nodes that every Linux has eight of, for any user: they stand for accelerators
        devices=tuple(f"tty{index}" for index in range(wanted.accelerators)),
        mapped=bool(MAPPED_ROOT),
        cgroups=cgroups.make(disk.cgroups_file, room.name, room.folder.name, wanted.node.name)
        if image.containers
        else (),
    )


def _boot(room: Room, boots: Sequence[hands.Boot], total: int, progress: Progress) -> None:
    if not boots:
        return
    files.make_directory(room.exports / ".packages")
    done = total - len(boots)

    def born(name: str, process: Process) -> None:
        files.write(disk_of(room, name).process_file, process.instance)

    def up(name: str) -> None:
        nonlocal done
        done += 1
        progress(f"{name} up ({done} of {total})")

    def awaited(names: Sequence[str]) -> None:
        progress(f"waiting for {', '.join(names[:3])}{' and others' if len(names) > 3 else ''} ({done} of {total} up)")

    if failed := hands.boot(room, boots, born, up, awaited):
        reports = [f"{name}: {why}" + _console(disk_of(room, name)) for name, why in sorted(failed.items())]
        raise room.failed(f"{len(failed)} of {total} nodes did not boot", "\n" + "\n".join(reports))


def _console(disk: NodeDisk) -> str:
    try:
        said = disk.console.read_text(errors="replace").strip().splitlines()[-3:]
    except FileNotFoundError:
        return ""
    return "".join(f"\n  {line}" for line in said)


def _remove(room: Room, names: Sequence[str]) -> list[str]:
    """End nodes, unplug them and remove their disks. Return the nodes that existed."""
    gone = [name for name in names if disk_of(room, name).folder.exists()]
    for name in gone:
        _shut_down(room, name)
        _power_off(disk_of(room, name))
    if gone and room.process:
        found = hands.look(room)
        plugged = [name for name in gone if name in found]
        hands.arrange(room, [network.unplug(name, found[name]) for name in plugged], forget=plugged)
    for name in gone:
        disk_of(room, name).commission_file.unlink(missing_ok=True)  # first: no other command may find half a disk
        files.remove_tree(disk_of(room, name).folder, name)
    return gone


def _shut_down(room: Room, name: str) -> None:
    """Stop a node's services, so that it writes its memory to its volumes.

    A node that cannot do so loses the data, as a dead node would.
    """
    disk = disk_of(room, name)
    if disk.commission and disk.commission.volumes and _is_whole(disk):
        with contextlib.suppress(RoomError):
            run_inside(room, name, ["sh", "-c", "sv -w 20 force-stop /etc/stampworks/services/*"], timeout=40)


def _power_off(disk: NodeDisk) -> None:
    if process := disk.process:
        process.end(disk.folder.name)
    cgroups.remove(disk.cgroups_file, disk.folder.name)


# -- looking


def _outdated(room: Room, group: GroupSpec, image: NodeImage) -> dict[str, str]:
    """Return the nodes whose disk has to be replaced, and the reason."""
    wanted = {node.name: disks.commission(node, group, image) for node in group.nodes}
    reasons = {name: _why_outdated(disk_of(room, name), one) for name, one in wanted.items()}
    return {name: why for name, why in reasons.items() if why}


def _why_outdated(disk: NodeDisk, wanted: Commission) -> str:
    found = disk.commission
    if found is None:
        return ""
    if disk.condemned:
        return disk.condemned
    if found.image != wanted.image:
        return "it runs another image"
    return "" if found == wanted else "its machine, volumes or place in the network are others now"


def _runs(room: Room, name: str) -> bool:
    process = disk_of(room, name).process
    return process is not None and not process.frozen


def _without_nodes(group: GroupSpec, names: Collection[str]) -> GroupSpec:
    return replace(group, nodes=tuple(node for node in group.nodes if node.name not in names))


def _is_whole(disk: NodeDisk) -> bool:
    """Whether the node runs with all its mounts."""
    process = disk.process
    return disk.commission is not None and process is not None and not process.frozen and not _lost(disk)


def _running(room: Room, name: str) -> Process:
    if process := disk_of(room, name).process:
        return process
    raise RoomError(room.name, f"node {name} is not running", "", "run: pulumi up")


def _state(disk: NodeDisk, room_links: Links, node_links: Links) -> NodeState | None:
    commission = disk.commission
    if commission is None:
        return None
    node, process = commission.node, disk.process
    rails = tuple(
        _rail_state(node, f"rail{index}", index, room_links, node_links) for index in range(len(node.rail_addresses))
    )
    return NodeState(
        name=node.name,
        state="dead" if process is None else "frozen" if process.frozen else "up",
        instance=process.instance if process else "",
        pid=process.pid if process else 0,
        address=node.address,
        rail_addresses=node.rail_addresses,
        rails=rails,
        host_key=disk.host_key,
        image=commission.image,
        lost=_lost(disk),
    )


def _rail_state(node: NodeSpec, interface: str, index: int, room_links: Links, node_links: Links) -> RailState:
    ends: list[InterfaceState | None] = [node_links.get(interface), room_links.get(network.port(node.name, interface))]
    plug = ends[1]
    plugged = plug is not None and plug.master == network.bridge(index, node.leaf)
    up = plugged and all(end is not None and end.up for end in ends)
    return RailState(interface, up, min(end.rate_mbps if end else 0 for end in ends))


def _lost(disk: NodeDisk) -> tuple[str, ...]:
    """Return the mount points of shared directories and volumes on which nothing is mounted."""
    commission, process = disk.commission, disk.process
    wanted = ("/exports", *(volume.mount for volume in commission.volumes)) if commission and process else ()
    try:
        lines = Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines() if process else []
    except OSError:  # the process is ending
        return wanted
    found = {line.split()[4] for line in lines}
    return tuple(point for point in wanted if point not in found)
