"""Programs that run in a room beside its nodes: started once, known, confined, ended with the room."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.machine_room import daemons
from stampworks.machine_room.daemons import Daemon
from stampworks.machine_room.processes import identify
from stampworks.machine_room.room import Room, of_cluster

from tests.project import listening, wait_for

pytestmark = pytest.mark.cluster

PORT = 7000
ANSWERS = f"""
import os, socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        while said := self.request.recv(1 << 16):
            self.request.sendall(said[::-1])
socketserver.ThreadingTCPServer(("127.0.0.1", {PORT}), Answer).serve_forever()
"""
TELLS = """
import time
print(open("/proc/self/status").read() + "]", flush=True)
time.sleep(600)
"""


@pytest.fixture
def room(state: Path) -> Iterator[Room]:
    assert state
    room = of_cluster(f"d{uuid.uuid4().hex[:8]}")
    with room.locked():
        room.claim("tests")
        room.start()
    yield room
    with room.locked():
        room.remove()


def program(name: str, code: str = "import time; time.sleep(600)") -> Daemon:
    return Daemon(name, (sys.executable, "-c", code, name))


def home(room: Room) -> Path:
    return room.folder / "daemons"


def process_of(room: Room, name: str) -> int:
    """The program itself, as the host sees it, by the folder that it works in."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"-c"] and words[3:4] == [name.encode()] and (folder / "cwd").readlink() == home(room):
                return int(folder.name)
    raise AssertionError(f"{name} does not run in {room.name}")


def test_it_runs_once_until_it_is_to_be_another(room: Room) -> None:
    """A second request keeps it running; another command ends and restarts it."""
    first = program("sleeper")
    daemons.start(room, [first])
    wait_for(lambda: not daemons.dead(room, ["sleeper"]), 10)
    wait_for(lambda: _runs(room, "sleeper"), 10)
    before = process_of(room, "sleeper")
    known = identify(before)
    daemons.start(room, [first])
    assert process_of(room, "sleeper") == before
    daemons.start(room, [program("sleeper", "import time; time.sleep(601)")])
    wait_for(lambda: _runs(room, "sleeper"), 10)
    assert process_of(room, "sleeper") != before
    assert known
    assert not known.alive


def test_another_file_makes_it_another_one(room: Room) -> None:
    """A renewed certificate restarts the program, which would not notice it."""
    file = room.folder / "settings"
    file.write_text("one")
    settled = Daemon("reader", program("reader").argv, reads=(file,))
    daemons.start(room, [settled])
    wait_for(lambda: _runs(room, "reader"), 10)
    before = process_of(room, "reader")
    daemons.start(room, [settled])
    assert process_of(room, "reader") == before
    file.write_text("two")
    daemons.start(room, [settled])
    wait_for(lambda: _runs(room, "reader"), 10)
    assert process_of(room, "reader") != before


def test_it_has_no_privilege(room: Room) -> None:
    """This holds even if root starts it."""
    daemons.start(room, [program("teller", TELLS)])
    log = room.folder / "daemons" / "teller.log"
    wait_for(lambda: "]" in log.read_text(), 10)
    status = dict(line.split(":\t") for line in log.read_text().splitlines() if ":\t" in line)
    assert [status[name] for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")] == [
        "0" * 16,
        "0" * 16,
        "0" * 16,
        "1",
    ]


def test_one_that_ended_is_dead_and_its_last_words_are_known(room: Room) -> None:
    gone = program("gone", "import sys; sys.exit('there is no port left')")
    daemons.start(room, [gone])
    wait_for(lambda: daemons.dead(room, ["gone"]) == ["gone"], 10)
    assert daemons.last_words(room, "gone") == "there is no port left"


def test_ending_takes_the_program_along(room: Room) -> None:
    daemons.start(room, [program("sleeper")])
    wait_for(lambda: _runs(room, "sleeper"), 10)
    daemons.end(room, ["sleeper", "never-started"])
    assert not _runs(room, "sleeper")


def test_a_room_that_ends_takes_all_of_them_along(room: Room) -> None:
    daemons.start(room, [program("one"), program("two")])
    wait_for(lambda: _runs(room, "one") and _runs(room, "two"), 10)
    with room.locked():
        room.end()
    wait_for(lambda: not _runs(room, "one") and not _runs(room, "two"), 10)


def test_a_door_leads_into_the_room_and_stays_where_it_is(room: Room) -> None:
    """Many at a time, large and small, and at the same port after it was closed; of this machine alone."""
    server = Daemon("server", (sys.executable, "-c", ANSWERS, "server"))
    daemons.start(room, [server])
    port = daemons.open_door(room, "door", "127.0.0.1", PORT)
    assert daemons.open_door(room, "door", "127.0.0.1", PORT) == port
    assert [address for address, number in listening() if number == port] == ["127.0.0.1"]
    wait_for(lambda: _asked(port, b"abc") == b"cba", 10)
    large = os.urandom(1 << 20)
    connections = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(20)]
    for connection in connections:
        connection.sendall(b"xyz")
    assert [connection.recv(3) for connection in connections] == [b"zyx"] * 20
    for connection in connections:
        connection.close()
    assert len(_asked(port, large)) == len(large)
    wait_for(lambda: not _connections(port), 10)
    daemons.end(room, ["door"])
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=10)
    assert daemons.open_door(room, "door", "127.0.0.1", PORT) == port
    wait_for(lambda: _asked(port, b"abc") == b"cba", 10)


def test_a_door_moves_when_its_port_is_somebody_elses(room: Room) -> None:
    port = daemons.open_door(room, "door", "127.0.0.1", PORT)
    daemons.end(room, ["door"])
    with socket.create_server(("127.0.0.1", port)):
        assert daemons.open_door(room, "door", "127.0.0.1", PORT) != port


def test_a_starter_that_is_killed_leaves_none_that_nobody_knows(room: Room, tmp_path: Path) -> None:
    """A new program waits until its identity is recorded."""
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(daemons, "identify", lambda _: os.kill(os.getpid(), signal.SIGKILL))
            daemons.start(room, [program("orphan")])
        os._exit(0)
    os.waitpid(child, 0)
    wait_for(lambda: not _runs(room, "orphan"), 10)
    assert daemons.dead(room, ["orphan"]) == ["orphan"]
    assert tmp_path


def _runs(room: Room, name: str) -> bool:
    try:
        process_of(room, name)
    except AssertionError:
        return False
    return True


def _connections(port: int) -> list[str]:
    """Return the connections through a port that are not closed at both ends."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = f":{port:04X}"
    over = ("06", "0A")  # TIME_WAIT, and the door itself
    return [line[1] for line in lines if (line[1] + line[2]).find(ours) >= 0 and line[3] not in over]


def _asked(port: int, text: bytes) -> bytes:
    """Return the answer; empty if no server answers yet."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))
