"""Rooms as a whole: start them with their networks, read their state, end them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room import daemons, files, hands
from stampworks.machine_room.network import (
    MANAGEMENT,
    Links,
    bridge,
    leaves_in_use,
    switches,
    trunk_of,
    trunks,
    with_prefix,
)
from stampworks.machine_room.room import Progress, Room, of_cluster, rooms_dir
from stampworks.machine_room.specs import NetworkSpec, RailSpec, network_text


@dataclass(frozen=True)
class TrunkState:
    """The trunk between a leaf and its spine as the kernel has it now."""

    rail: int
    leaf: str
    rate_mbps: int
    """Rate of the slower end; 0 when an end is not shaped or is down."""
    in_use: bool
    """Whether nodes are plugged into its leaf."""


@dataclass(frozen=True)
class RoomState:
    """State of a room."""

    instance: str
    """Identity of the room, which changes when it restarts with all its nodes."""
    gateways: tuple[str, ...]
    """Addresses of the room on the management network, with their prefix."""
    trunks: tuple[TrunkState, ...]


@dataclass(frozen=True)
class RoomEntry:
    """A room of this user on this machine."""

    cluster: str
    owner: str
    runs: bool
    nodes: int


def rooms() -> list[RoomEntry]:
    """Return all rooms of this user, including rooms whose stack is lost."""
    folder = rooms_dir()
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = [(name, of_cluster(name)) for name in names]
    return [
        RoomEntry(name, room.owner, room.process is not None, len(list(room.nodes.glob("*")))) for name, room in found
    ]


def ensure_room(
    cluster: str,
    claim: str,
    network: NetworkSpec,
    rails: Sequence[RailSpec],
    identity: str,
    public_key: str,
    progress: Progress,
) -> RoomState:
    """Start the room if it does not run, and bring its networks and its key up to date.

    The claim names the stack that owns the room. Two stacks never share a room, even if their clusters have the same
    name.
    """
    room = of_cluster(cluster)
    with room.locked():
        room.claim(claim)
        if room.process is None:
            room.start()
            progress("machine room started")
        state = furnish(room, network, rails, identity, public_key)
        for name, (address, port) in _doors(room).items():
            daemons.open_door(room, name, address, port)
        return state


def furnish(room: Room, network: NetworkSpec, rails: Sequence[RailSpec], identity: str, public_key: str) -> RoomState:
    """Give a running room its key and its networks. The caller holds the room's lock."""
    files.make_directory(room.identity_file.parent, 0o700)
    files.write(room.identity_file, identity.rstrip("\n") + "\n", 0o600)
    files.write(room.public_key_file, public_key.rstrip("\n") + "\n")
    files.write(room.network_file, network_text(network))
    hands.arrange(room, [switches(network, rails, hands.look(room)[""])])
    return _state(room.running.instance, hands.look(room)[""])


def read_room(cluster: str) -> RoomState | None:
    """Return the state of a room; None when it does not run."""
    room = of_cluster(cluster)
    process = room.process
    return _state(process.instance, hands.look(room)[""]) if process else None


def end_room(cluster: str, claim: str) -> None:
    """End the room and everything that runs in it, if it runs. Its folder stays."""
    room = of_cluster(cluster)
    with room.locked():
        if room.is_ours(claim):
            room.end()


def is_ours(cluster: str, claim: str) -> bool:
    """Whether the room belongs to this claim, or to none."""
    return of_cluster(cluster).is_ours(claim)


def expect_owner(cluster: str, claim: str) -> None:
    """Raise RoomError when the room belongs to another claim."""
    of_cluster(cluster).expect(claim)


def remove_room(cluster: str, claim: str) -> None:
    """Remove everything of a room, including parts unknown to its stack, unless another stack owns it."""
    room = of_cluster(cluster)
    with room.locked():
        if room.is_ours(claim):
            room.remove()


def reach(cluster: str) -> tuple[str, ...]:
    """Return the prefix of a command that runs a program of this host in the cluster's network."""
    return of_cluster(cluster).reach


def open_door(cluster: str, name: str, address: str, port: int) -> int:
    """Open a port on this machine's loopback that leads to an address in the room, and return it.

    It is permanent: `ensure_room` opens it again after a restart of the room.
    """
    room = of_cluster(cluster)
    with room.locked():
        doors = _doors(room)
        if doors.get(name, (address, port)) != (address, port):  # a relay keeps its first target
            daemons.end(room, [name])
        doors[name] = (address, port)
        files.write(_doors_file(room), json.dumps(doors))
        return daemons.open_door(room, name, address, port)


def _doors(room: Room) -> dict[str, tuple[str, int]]:
    try:
        return {name: (address, port) for name, (address, port) in json.loads(_doors_file(room).read_text()).items()}
    except FileNotFoundError:
        return {}


def _doors_file(room: Room) -> Path:
    return room.folder / "doors.json"


def room_drift(state: RoomState | None, network: NetworkSpec, rails: Sequence[RailSpec]) -> tuple[str, ...]:
    """Describe each difference between a room and its declaration; empty when there is none."""
    if state is None:
        return ("the machine room is not running",)
    drift = []
    gateway = with_prefix(network.gateway, network.management_cidr)
    if state.gateways != (gateway,):
        drift.append(f"the room's address is {', '.join(state.gateways) or 'missing'}, not {gateway}")
    found = {(trunk.rail, trunk.leaf): trunk.rate_mbps for trunk in state.trunks}
    wanted = {(rail, trunk.leaf): trunk.rate_mbps for rail, trunk in trunks(rails)}
    for trunk in state.trunks:
        if trunk.in_use:  # the trunk goes with the last node of its leaf: jobs there may still need it
            wanted.setdefault((trunk.rail, trunk.leaf), trunk.rate_mbps)
    for key in sorted(found.keys() | wanted.keys()):
        if found.get(key) != wanted.get(key):
            has, should = (f"{side[key]} Mb/s" if key in side else "no trunk" for side in (found, wanted))
            drift.append(f"rail{key[0]}, trunk of {key[1]}: {has}, not {should}")
    return tuple(drift)


def _state(instance: str, links: Links) -> RoomState:
    found, leaves = [], leaves_in_use(links)
    for name in sorted(links):
        if trunk := trunk_of(name):
            (rail, leaf), ends = trunk, [links[name], links.get(name.removesuffix("-up") + "-dn")]
            rate_mbps = min(end.rate_mbps if end and end.up and end.master else 0 for end in ends)
            found.append(TrunkState(rail, leaf, rate_mbps, bridge(rail, leaf) in leaves))
    management = links.get(MANAGEMENT)
    return RoomState(instance, management.addresses if management else (), tuple(found))
