"""Connect the ranks of a start for messages apart from the measurement: rank 0 listens, the others connect.

Every wait ends. A lost rank is known at once by its closed connection, a hanging rank at the end of the wait, and
callers get the names of silent ranks instead of an error. Ranks do not authenticate: the start must have its nodes for
itself, and messages are bounded data.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .result import plain

MESSAGE_MAX = 2**24
AGAIN_S = 0.1

Step = tuple[int, int]
"""(the how-manieth program of the start, the how-manieth exchange in it)"""


class Lost(Exception):  # noqa: N818 (reads as what happened)
    """The first rank does not answer."""

    def __init__(self, node: str, why: str) -> None:
        self.node = node
        super().__init__(why)


class Line:
    """A connection, with a thread that receives whole messages."""

    def __init__(self, connection: socket.socket, changed: threading.Condition, wait_s: float) -> None:
        self.connection = connection
        self.changed = changed
        self.heard: dict[Step, Any] = {}
        self.left: dict[int, str] = {}
        """The reason why the other side has left a program early, by program."""
        self.at = (0, 0)
        """The step of the other side, which answers no earlier steps any more."""
        self.closed = ""
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Limit sending alone: Python's own timeout would also limit the thread that receives.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(wait_s), 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message. A connection that fails is closed, which its readers notice."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            self._end(error)

    def _listen(self) -> None:
        try:
            with self.connection, self.connection.makefile("rb") as stream:
                while message := stream.readline(MESSAGE_MAX):
                    self._take(json.loads(message))
            self._end(None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._end(error)

    def _take(self, message: dict[str, Any]) -> None:
        with self.changed:
            program, number = int(message["program"]), int(message["step"])
            self.at = max(self.at, (program, number))
            if "left" in message:
                self.left[program] = plain(message["left"])
            else:
                self.heard[program, number] = message["data"]
            self.changed.notify_all()

    def _end(self, error: Exception | None) -> None:
        with self.changed:
            self.closed = self.closed or f"the connection broke{f': {plain(str(error))}' if error else ''}"
            self.changed.notify_all()

    def silent(self, step: Step) -> str:
        """Return why no answer of this step will arrive; empty while it may."""
        if step[0] in self.left:
            return f"gave up: {self.left[step[0]]}"
        if self.at > step:
            return "went on without it"
        return self.closed


class Meeting:
    """All ranks of a start. `names` are those that arrived, by rank, and `absent` has the reasons of the others."""

    def __init__(self, rank: int, world: int, node: str, first_name: str, wait_s: float) -> None:
        self.rank, self.world, self.wait_s = rank, world, wait_s
        self.names = {rank: node}
        self.absent: dict[int, str] = {}
        self.late: dict[int, Step] = {}
        """Ranks that missed an answer once, and their progress: nothing waits for such a rank until its next
        message."""
        self.changed = threading.Condition()
        self.lines: dict[int, Line] = {}
        """Connections by rank: the first rank has one to each other rank, and they have one to it."""
        self.first_name = first_name
        self.program, self.step = 0, 0

    def begin(self, program: int) -> None:
        """Begin the next program: earlier messages no longer count."""
        self.program, self.step = program, 0

    def leave(self, why: str) -> None:
        """Tell the others that this rank has left the program, so that none waits for it."""
        message = {"program": self.program, "step": 0, "left": why}
        for line in self.lines.values():
            line.say(message)

    def gather(self, data: Any, wait_s: float | None = None) -> dict[int, Any]:
        """Return the data of each rank, on the first rank, without silent ranks (see `absent`); empty on others."""
        step = self._next()
        if self.rank:
            self.lines[0].say({"program": step[0], "step": step[1], "data": data})
            return {}
        wait = self.wait_s if wait_s is None else wait_s
        end = time.monotonic() + wait
        self.absent = {rank: why for rank in range(1, self.world) if (why := self._await(rank, step, end, wait))}
        heard = {rank: self.lines[rank].heard.pop(step) for rank in self.lines if rank not in self.absent}
        return {0: data} | dict(sorted(heard.items()))

    def exchange(self, data: Any, wait_s: float | None = None) -> dict[int, Any]:
        """Return the data of each rank, on every rank; raise Lost if the first rank does not answer."""
        wait = self.wait_s if wait_s is None else wait_s
        heard = self.gather(data, wait)
        step = self._next()
        if not self.rank:
            message = {"program": step[0], "step": step[1], "data": {"heard": heard, "absent": self.absent}}
            for line in self.lines.values():
                line.say(message)
            return heard
        # The first rank waits for the slowest before it answers.
        wait = 2 * wait + 1
        if why := self._await(0, step, time.monotonic() + wait, wait):
            raise Lost(self.first_name, f"does not answer as the first rank: {why}")
        told = self.lines[0].heard.pop(step)
        self.absent = {int(rank): plain(why) for rank, why in told["absent"].items()}
        return {int(rank): each for rank, each in told["heard"].items()}

    def _next(self) -> Step:
        self.step += 1
        return self.program, self.step

    def _await(self, rank: int, step: Step, end: float, wait: float) -> str:
        """Wait for a rank's message in a step, and return why there is none; empty if it arrived."""
        line = self.lines.get(rank)
        if line is None:
            return self.absent.get(rank, "never came")
        with self.changed:
            if self.late.get(rank) == line.at:
                return f"no word within {wait:g} s"
            left = max(0.0, end - time.monotonic())
            self.changed.wait_for(lambda: step in line.heard or line.silent(step), timeout=left)
            if step in line.heard:
                return ""
            if not line.silent(step):
                self.late[rank] = line.at
            return line.silent(step) or f"no word within {wait:g} s"

    def close(self) -> None:
        """Close all connections; ranks that wait get an error."""
        for line in self.lines.values():
            with contextlib.suppress(OSError):
                line.connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class First:
    """The address of the first rank."""

    name: str
    address: str
    port: int


def meet(rank: int, world: int, node: str, first: First, wait_s: float, start: str) -> Meeting:
    """Connect the ranks of one start. Ranks that do not come in time are missing from then on."""
    meeting = Meeting(rank, world, node, first.name, wait_s)
    if world == 1:
        return meeting
    if rank == 0:
        _receive(meeting, first, start)
    else:
        _come(meeting, first, start)
    # After this all ranks know each other.
    told = meeting.exchange(node)
    meeting.names = {number: plain(name) for number, name in sorted(told.items())}
    return meeting


def _receive(meeting: Meeting, first: First, start: str) -> None:
    deadline = time.monotonic() + meeting.wait_s
    with socket.create_server((first.address, first.port), backlog=meeting.world) as server:
        while len(meeting.lines) < meeting.world - 1 and (left := deadline - time.monotonic()) > 0:
            server.settimeout(left)
            try:
                connection, _ = server.accept()
            except TimeoutError:
                break
            if (rank := _hello(connection, meeting.world, start)) is not None:
                meeting.lines[rank] = Line(connection, meeting.changed, meeting.wait_s)
            else:
                connection.close()


def _hello(connection: socket.socket, world: int, start: str) -> int | None:
    """Return the rank that a connection announces; None if it is not of this start."""
    connection.settimeout(2)
    said = b""
    try:
        while not said.endswith(b"\n") and len(said) < 200:
            piece = connection.recv(1)
            if not piece:
                return None
            said += piece
        mark, _, number = said.decode().strip().rpartition(" ")
        rank = int(number)
    except (OSError, ValueError):
        return None
    return rank if mark == start and 0 < rank < world else None


def _come(meeting: Meeting, first: First, start: str) -> None:
    deadline, why = time.monotonic() + meeting.wait_s, ""
    while (left := deadline - time.monotonic()) > 0:
        try:
            connection = socket.create_connection((first.address, first.port), timeout=left)
            connection.sendall(f"{start} {meeting.rank}\n".encode())
        except OSError as error:
            why = error.strerror or str(error)
            time.sleep(AGAIN_S)
        else:
            meeting.lines[0] = Line(connection, meeting.changed, meeting.wait_s)
            return
    where = f"{first.address}:{first.port}"
    raise Lost(first.name, f"does not answer as the first rank at {where} within {meeting.wait_s:g} s: {why}")
