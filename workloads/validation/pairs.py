"""Measure each rail between two nodes: plain TCP, one direction after the other, all rails at once.

A start has several rounds. In a round each node belongs to at most one pair, so that a pair's result is its own; the
caller decides whether pairs of a round share a trunk. The receiver measures, and leaves out the beginning of each
transfer; the sender reports how much its kernel had to send again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .awake import awake
from .ranks import Ranks
from .result import Answer
from .timing import rates, spread

WINDOWS = 10
BUFFER = 2**18
SENT_AGAIN = struct.Struct("=200xQQ")
"""Part of the kernel's struct tcp_info, which only grows at its end: bytes sent, and bytes sent again."""


@dataclass(frozen=True)
class Options:
    """Settings of the measurement between pairs."""

    rounds: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Pairs of nodes, round by round; without any, each node meets each other node once."""
    bytes: int = 2**20
    """Bytes of one send."""
    seconds: float = 1.0
    """Seconds for each direction."""
    wait: float = 5.0
    """Seconds that a node waits for its peer on a rail."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or self.seconds <= 0 or self.wait <= 0:
            raise ValueError("bytes, seconds and wait must be more than 0")
        for number, pairs in enumerate(self.rounds):
            names = [name for pair in pairs for name in pair]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"rounds[{number}]: {', '.join(twice)} cannot be in two places at once")


@dataclass(frozen=True)
class Way:
    """A direction between two nodes on a rail."""

    round: int
    sender: str
    receiver: str
    rail: str

    @property
    def hello(self) -> bytes:
        """The first bytes of a connection, by which the receiver recognizes it."""
        return f"pairs {self.round} {self.sender} {self.receiver} {self.rail}\n".encode()


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Measure all pairs, round by round. Raise ValueError for one rank."""
    if ranks.world < 2:
        raise ValueError("pairs needs two ranks or more: start it with srun -N2")
    meeting, own = ranks.meeting, ranks.cluster.rails_of(ranks.node)
    if not own:
        answer.problem("the option cluster has no rails of this node")
    with contextlib.ExitStack() as stack:
        stack.enter_context(awake(ranks.cluster.shared))
        servers = {rail: stack.enter_context(listen(address)) for rail, address in own.items()}
        ports = {rail: server.getsockname()[1] for rail, server in servers.items()}
        told = meeting.exchange(ports)
        there = {meeting.names[rank]: each for rank, each in told.items()}
        # nodes are identified by name
        rounds = options.rounds or tournament(sorted(there))
        for number, pairs in enumerate(rounds):
            meeting.exchange(number)  # wait until all have finished
            for one, other in pairs:
                peer = {one: other, other: one}.get(ranks.node, "")
                if peer and peer not in there:
                    answer.problem(f"no answer from {peer}: it is not among the ranks")
                elif peer:
                    _meet(Ends(ranks, options, answer, servers, there[peer]), number, one, other)
    ranks.collect(answer)


def listen(address: str) -> socket.socket:
    """Return a server on a free port of an address."""
    return socket.create_server((address, 0))


def tournament(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds in which each pair meets once: all but the first rank move on by a place."""
    seats = [*names, *([""] if len(names) % 2 else [])]
    rounds = []
    for _ in range(len(seats) - 1):
        halves = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        rounds.append([pair for pair in halves if all(pair)])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


@dataclass(frozen=True)
class Ends:
    """Data that this node needs to meet a peer."""

    ranks: Ranks
    options: Options
    answer: Answer
    servers: Mapping[str, socket.socket]
    ports: Mapping[str, int]
    """Ports on which the peer listens, by rail."""


def _meet(ends: Ends, number: int, one: str, other: str) -> None:
    """Measure both directions on all rails that both nodes have."""
    threads = []
    for rail in ends.servers:
        if rail in ends.ports:
            ways = [Way(number, one, other, rail), Way(number, other, one, rail)]
            threads.append(threading.Thread(target=_on_rail, args=(ends, ways), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * (ends.options.seconds + 3 * ends.options.wait) + 1)


def _on_rail(ends: Ends, ways: Sequence[Way]) -> None:
    for way in ways:
        peer = way.sender if way.receiver == ends.ranks.node else way.receiver
        try:
            if way.receiver == ends.ranks.node:
                marks = receive(ends.servers[way.rail], way, ends.options)
                found = spread([rate * 8 / 1e9 for rate in rates(marks, WINDOWS)])
                where = {"node": way.sender, "peer": way.receiver, "rail": way.rail, "bytes": ends.options.bytes}
                ends.answer.value("pair_bandwidth", "Gb/s", found, **where)
            else:
                cluster = ends.ranks.cluster
                target = (cluster.rails_of(peer)[way.rail], ends.ports[way.rail])
                resent = send(cluster.rails_of(ends.ranks.node)[way.rail], target, way, ends.options)
                if resent is not None:
                    where = {"node": way.sender, "peer": way.receiver, "rail": way.rail, "bytes": ends.options.bytes}
                    ends.answer.value("pair_resent", "%", resent, **where)
        except TimeoutError:
            ends.answer.problem(f"no answer from {peer} within {ends.options.wait:g} s", rail=way.rail)
        except (OSError, ValueError) as error:
            ends.answer.problem(f"{'from' if peer == way.sender else 'to'} {peer}: {error}", rail=way.rail)


def receive(server: socket.socket, way: Way, options: Options) -> list[tuple[float, int]]:
    """Receive during a measurement, and return (seconds since the start, bytes so far) pairs."""
    with _accepted(server, way, options.wait) as connection:
        connection.settimeout(options.wait)
        buffer, marks, total = bytearray(BUFFER), [(0.0, 0)], 0
        begun = time.perf_counter()
        while marks[-1][0] < options.seconds:
            taken = connection.recv_into(buffer)
            if not taken:
                raise ConnectionError(f"it stopped after {total} bytes")
            total += taken
            marks.append((time.perf_counter() - begun, total + unread(connection)))
    return marks


def unread(connection: socket.socket) -> int:
    """Count arrived bytes: a delayed reader must not take them for a fast link later."""
    return int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)


def _accepted(server: socket.socket, way: Way, wait: float) -> socket.socket:
    """Return the connection of this transfer; close those of others."""
    deadline = time.monotonic() + wait + 1  # the peer may have waited for the other direction in vain
    while (left := deadline - time.monotonic()) > 0:
        server.settimeout(left)
        connection, _ = server.accept()
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        with contextlib.suppress(OSError):
            if connection.recv(len(way.hello), socket.MSG_WAITALL) == way.hello:
                return connection
        connection.close()
    raise TimeoutError


def send(source: str, target: tuple[str, int], way: Way, options: Options) -> float | None:
    """Send until the receiver closes, and return the percentage of retransmitted bytes."""
    deadline = time.monotonic() + options.seconds + 2 * options.wait
    data = os.urandom(min(options.bytes, 2**20)) * -(-options.bytes // 2**20)
    with socket.create_connection(target, timeout=options.wait, source_address=(source, 0)) as connection:
        connection.sendall(way.hello)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < deadline:
                connection.sendall(data[: options.bytes])
        return resent(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SENT_AGAIN.size))


def resent(tcp_info: bytes) -> float | None:
    """Percentage of a connection's bytes that were sent again; None if the kernel does not count them."""
    if len(tcp_info) < SENT_AGAIN.size:
        return None
    sent, again = SENT_AGAIN.unpack_from(tcp_info)
    return 100 * again / sent if sent else None
