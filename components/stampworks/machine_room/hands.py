"""Requests to the program inside a room (`inside.py`), and its answers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stampworks.machine_room import network
from stampworks.machine_room.commands import ENVIRONMENT, last_lines, not_started, run, streams
from stampworks.machine_room.errors import AGAIN, RoomError
from stampworks.machine_room.processes import Process, identify
from stampworks.machine_room.room import Room

PROGRAM = Path(__file__).with_name("inside.py")
SURVEY = Path(__file__).with_name("survey.py")
LOOK_TIMEOUT_S = 60
BOOT_TIMEOUT_S = 60
VISIT_TIMEOUT_S = 180

Hearer = Callable[[dict[str, Any], int], bool]
"""Receives each message and the pid of its sender. Returns true when the new nodes may continue."""

CREDENTIALS = struct.Struct("3i")  # credentials of a message's sender, from the kernel: pid, uid, gid


@dataclass(frozen=True)
class Boot:
    """Inputs for a node's file system and its first process."""

    name: str
    address: str
    layers: tuple[str, ...]
    upper: str
    work: str
    root: str
    console: str
    exports: str
    volumes: tuple[tuple[str, str], ...]
    """(directory, mount point) of volumes that outlive the node."""
    packages: str
    devices: tuple[str, ...]
    mapped: bool
    """Whether an ordinary user boots the node, in a user namespace."""
    cgroups: tuple[tuple[str, str, str], ...]
    """(directory, kind, options) of the node's control groups; none if it divides nothing."""


def look(room: Room) -> dict[str, dict[str, network.InterfaceState]]:
    """Return all interfaces by node; the room's own are under ""."""
    command = [*room.inside, sys.executable, "-I", "-S", str(SURVEY)]
    try:
        seen = json.loads(run(command, room.name, "cannot look at the network", timeout=LOOK_TIMEOUT_S))
    except RoomError as error:
        raise room.failed(error.what, error.why) from error
    return {space: {name: network.link(found) for name, found in links.items()} for space, links in seen.items()}


def arrange(room: Room, batches: Sequence[network.CommandBatch], forget: Sequence[str] = ()) -> None:
    """Carry out network commands, then remove the namespaces of nodes to forget."""
    request = {"batches": [dataclasses.asdict(batch) for batch in batches], "forget": list(forget)}
    _visit(room, "cannot set up the network", request)


def boot(
    room: Room,
    boots: Sequence[Boot],
    born: Callable[[str, Process], None],
    up: Callable[[str], None],
    awaited: Callable[[Sequence[str]], None],
) -> dict[str, str]:
    """Boot nodes until their sshd answers.

    Return the reasons of failed ones. Call `born` with each node before it does anything, and `up` when it answers.
    Call `awaited` every second with the silent nodes; its exception ends the wait.
    """
    unborn = {boot.name for boot in boots}
    failed: dict[str, str] = {}

    def hear(message: dict[str, Any], pid: int) -> bool:
        match message:
            case {"born": name}:
                if process := identify(pid):
                    born(name, process)
                unborn.discard(name)
                return not unborn
            case {"up": name}:
                up(name)
            case {"awaited": names}:
                awaited(names)
            case {"failed": name, "why": why}:
                failed.setdefault(name, why)
                if name in unborn:
                    unborn.discard(name)
                    return not unborn
        return False

    request = {"boots": [dataclasses.asdict(boot) for boot in boots], "timeout_s": BOOT_TIMEOUT_S}
    _visit(room, "cannot boot nodes", request, hear)
    return failed


def _visit(room: Room, what: str, request: dict[str, Any], hear: Hearer | None = None) -> None:
    """Run the program in the room, and let new nodes continue when `hear` says so."""
    inside = room.inside
    ours, theirs = socket.socketpair()
    with ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            argv = [*inside, sys.executable, "-I", "-S", str(PROGRAM), str(theirs.fileno())]
            hands = _start(argv, theirs.fileno(), room.name, what)
        orders, _, errors = streams(hands)
        with hands, ours:  # stop sending first: a reader that stops before the end must not wait for it
            _order(orders, {"batches": [], "forget": [], "boots": [], **request})
            for message, pid in _messages(ours, room.name, what):
                if message.get("failed") == "":
                    raise room.failed(what, message["why"])
                if hear and hear(message, pid):
                    _order(orders, "go")
            why = last_lines(errors.read().decode(errors="replace"))
    if hands.returncode != 0:
        raise room.failed(what, why or f"{argv[0]} ended with {hands.returncode}")


def _start(argv: list[str], descriptor: int, where: str, what: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=[descriptor], env=ENVIRONMENT, cwd="/"
        )
    except OSError as error:
        raise not_started(error, argv[0], where, what) from error


def _order(orders: IO[bytes], what: Any) -> None:
    # a program that ends early gives its reason on the other line
    with contextlib.suppress(BrokenPipeError):
        orders.write(json.dumps(what).encode() + b"\n")
        orders.flush()


def _messages(ours: socket.socket, where: str, what: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each JSON line with its sender's pid on this host, until the last sender is gone."""
    deadline = time.monotonic() + VISIT_TIMEOUT_S
    begun: dict[int, bytes] = {}
    while True:
        ours.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            data, ancillary, _, _ = ours.recvmsg(1 << 16, socket.CMSG_SPACE(CREDENTIALS.size))
        except TimeoutError:
            raise RoomError(where, what, f"no answer within {VISIT_TIMEOUT_S} s", AGAIN) from None
        if not data:
            return
        pid = CREDENTIALS.unpack(ancillary[0][2])[0]
        *lines, begun[pid] = (begun.get(pid, b"") + data).split(b"\n")
        for line in lines:
            yield json.loads(line), pid
