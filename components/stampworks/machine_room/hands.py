"""Tells the room's hands (`inside.py`) what to do and hears from them what they did."""

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
"""Gets every message and its sender's number; says true to let the newborn go on."""

CREDENTIALS = struct.Struct("3i")  # what the kernel says of a message's sender: pid, uid, gid


@dataclass(frozen=True)
class Boot:
    """All it takes to put a node's file system together and start its first process."""

    name: str
    address: str
    layers: tuple[str, ...]
    upper: str
    work: str
    root: str
    console: str
    exports: str
    volumes: tuple[tuple[str, str], ...]
    """(directory, mount point) of what outlives the node."""
    packages: str
    devices: tuple[str, ...]
    mapped: bool
    """Whether this is done by an ordinary user, in a user namespace."""
    cgroups: tuple[tuple[str, str, str], ...]
    """(directory, kind, options) of the control groups that are the node's own; none where it divides nothing."""


def look(room: Room) -> dict[str, dict[str, network.InterfaceState]]:
    """All interfaces there are, by node; the room's own under ""."""
    command = [*room.inside, sys.executable, "-I", "-S", str(SURVEY)]
    try:
        seen = json.loads(run(command, room.name, "cannot look at the network", timeout=LOOK_TIMEOUT_S))
    except RoomError as error:
        raise room.failed(error.what, error.why) from error
    return {space: {name: network.link(found) for name, found in links.items()} for space, links in seen.items()}


def arrange(room: Room, batches: Sequence[network.CommandBatch], forget: Sequence[str] = ()) -> None:
    """Carries out network commands, then removes the namespaces of nodes to forget."""
    request = {"batches": [dataclasses.asdict(batch) for batch in batches], "forget": list(forget)}
    _visit(room, "cannot set up the network", request)


def boot(
    room: Room,
    boots: Sequence[Boot],
    born: Callable[[str, Process], None],
    up: Callable[[str], None],
    awaited: Callable[[Sequence[str]], None],
) -> dict[str, str]:
    """Boots nodes until their sshd answers and returns why some did not.

    Each is given to `born` before it does anything and to `up` when it answers; `awaited` gets those that have not
    answered yet, every second, and can end the wait by an exception.
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
    """Sends the hands into the room, and lets the newborn go on when `hear` says so."""
    inside = room.inside
    ours, theirs = socket.socketpair()
    with ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            argv = [*inside, sys.executable, "-I", "-S", str(PROGRAM), str(theirs.fileno())]
            hands = _start(argv, theirs.fileno(), room.name, what)
        orders, _, errors = streams(hands)
        with hands, ours:  # ours goes first: whoever stops listening before the end must not wait for it
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
    # who hangs up says on the other line why
    with contextlib.suppress(BrokenPipeError):
        orders.write(json.dumps(what).encode() + b"\n")
        orders.flush()


def _messages(ours: socket.socket, where: str, what: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Each JSON line with the number its sender has out here, until the last sender is gone."""
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
