"""Messages between ranks, and the time limit for silent ranks."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from validation.meeting import First, Lost, Meeting, meet

from tests.project import wait_for

WAIT_S = 0.5
MANY = 60
"""Test waits that would take half a minute each."""


Together = Callable[..., list[Meeting]]


@pytest.fixture
def met() -> Iterator[Together]:
    """Yield connected ranks, each as if in a separate process; all connections are closed afterwards."""
    all_met: list[Meeting] = []

    def begin(world: int = 2) -> list[Meeting]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            first = First("node-0", "127.0.0.1", server.getsockname()[1])
        found = at_once(
            [functools.partial(meet, rank, world, f"node-{rank}", first, 10, "test") for rank in range(world)]
        )
        all_met.extend(found)
        for one in found:
            one.begin(1)
        return found

    yield begin
    for one in all_met:
        one.close()
    wait_for(lambda: all(line.closed for one in all_met for line in one.lines.values()), 30)


def at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(works)) as threads:
        return [each.result() for each in [threads.submit(work) for work in works]]


def test_everybody_knows_everybody(met: Together) -> None:
    """All ranks know all nodes and their messages."""
    meetings = met(3)
    assert all(one.names == {0: "node-0", 1: "node-1", 2: "node-2"} for one in meetings)
    heard = at_once([functools.partial(one.exchange, one.rank * 10) for one in meetings])
    assert heard == [{0: 0, 1: 10, 2: 20}] * 3


def test_silent_ranks_are_awaited_once(met: Together) -> None:
    """The wait is not repeated in the same program, until the rank answers again."""
    first, other = met()
    other.gather("here")
    assert first.gather(None) == {0: None, 1: "here"}
    begun = time.monotonic()
    for _ in range(MANY):
        assert first.gather(None, WAIT_S) == {0: None}
        assert first.absent == {1: "no word within 0.5 s"}
    assert time.monotonic() - begun < MANY * WAIT_S
    other.step = first.step
    other.gather("again")
    wait_for(lambda: first.lines[1].at > (1, first.step), 30)
    assert first.gather(None, WAIT_S) == {0: None, 1: "again"}


def test_ranks_that_give_up_are_not_awaited(met: Together) -> None:
    """The reason of such a rank is known, and it takes part in the next program."""
    first, other = met()
    other.leave("no torch")
    assert first.gather(None, 30) == {0: None}
    assert first.absent == {1: "gave up: no torch"}
    for one in (first, other):
        one.begin(2)
    other.gather("here")
    assert first.gather(None, 30) == {0: None, 1: "here"}


def test_lost_ranks_are_known_at_once(met: Together) -> None:
    """The broken connection shows it."""
    first, other = met()
    other.close()
    assert first.gather(None, 30) == {0: None}
    assert first.absent == {1: "the connection broke"}


def test_without_the_first_there_is_nobody(met: Together) -> None:
    """The error has the name of the first rank."""
    first, other = met()
    first.close()
    with pytest.raises(Lost, match="does not answer as the first rank: the connection broke") as lost:
        other.exchange(None, 30)
    assert lost.value.node == "node-0"


@pytest.mark.parametrize(
    "said", [b"no json\n", b"[]\n", b"{}\n", b"x" * 1000, b'{"program": 1, "step": "a"}\n', b"[" * 9999]
)
def test_invalid_messages_close_the_connection(met: Together, said: bytes) -> None:
    """Only that connection is closed; the other ranks continue."""
    first, other = met()
    other.lines[0].connection.sendall(said)
    other.close()
    assert first.gather(None, 30) == {0: None}
    assert first.absent[1].startswith("the connection broke")
