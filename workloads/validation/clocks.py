"""Measure the offsets of the nodes' clocks: ask each many times, and use the quickest answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass

from .meeting import First
from .ranks import Ranks
from .result import Answer
from .timing import Spread

STAMPS = struct.Struct("!Iqq")


@dataclass(frozen=True)
class Options:
    """Settings of the clock comparison."""

    asks: int = 20
    wait: float = 1.0
    """Seconds until an ask counts as lost."""

    def __post_init__(self) -> None:
        if self.asks < 1 or self.wait <= 0:
            raise ValueError("asks and wait must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Measure the offset of each rank's clock from that of rank 0. Raise ValueError for one rank."""
    if ranks.world < 2:
        raise ValueError("clocks needs two ranks or more: start it with srun -N2")
    meeting = ranks.meeting
    own = ranks.cluster.named(ranks.node)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.bind((own.address if own else _own_address(ranks.first), 0))
        doors = meeting.exchange(list(asked.getsockname()))
        if ranks.rank:
            threading.Thread(target=_reply, args=(asked,), daemon=True).start()
        else:
            for rank, (address, port) in doors.items():
                if rank:
                    _ask(asked, (address, port), meeting.names[rank], options, answer)
        ranks.collect(answer)
        meeting.exchange(None)  # all ranks reply until then


def _own_address(first: First) -> str:
    """Return the address from which this node reaches the first one, without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((first.address, first.port))
        return str(probe.getsockname()[0])


def _reply(asked: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the thread ends with the program
        while True:
            packet, sender = asked.recvfrom(STAMPS.size)
            came = time.time_ns()
            if len(packet) == STAMPS.size:
                asked.sendto(STAMPS.pack(STAMPS.unpack(packet)[0], came, time.time_ns()), sender)


def _ask(door: socket.socket, target: tuple[str, int], name: str, options: Options, answer: Answer) -> None:
    found = list[tuple[int, float]]()
    door.settimeout(options.wait)
    for number in range(options.asks):
        sent = time.time_ns()
        door.sendto(STAMPS.pack(number, 0, 0), target)
        try:
            while True:
                packet, sender = door.recvfrom(STAMPS.size)
                back = time.time_ns()
                if sender == target and len(packet) == STAMPS.size and packet[:4] == struct.pack("!I", number):
                    break
        except TimeoutError:
            if not found and number:
                break  # two in a row: it does not answer
            continue
        _, came, left = STAMPS.unpack(packet)
        found.append((back - sent - (left - came), (came - sent + left - back) / 2))
    if not found:
        answer.problem(f"its clock does not answer within {options.wait:g} s", node=name)
        return
    trip, offset = min(found)
    spread = Spread(offset / 1e6, (offset - trip / 2) / 1e6, (offset + trip / 2) / 1e6, len(found))
    note = "of the quickest answer; low and high are what its round trip allows"
    answer.value("clock_offset", "ms", spread, node=name, peer=answer.node, note=note)
