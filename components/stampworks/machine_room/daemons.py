"""Programs that run in a room as long as the room does."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stampworks.machine_room import files
from stampworks.machine_room.commands import ENVIRONMENT, last_lines, not_started, streams
from stampworks.machine_room.errors import AGAIN, RoomError
from stampworks.machine_room.processes import Process, children, from_instance, identify
from stampworks.machine_room.room import Room, enter

_RELAY = Path(__file__).with_name("relay.py")
_LOG_BYTES, _POLL_S = 1 << 20, 0.001

# Reports its pid, then waits for a line before it becomes the program. If its starter dies before it has recorded the
# pid, the script reads the end of file and ends.
_WAIT = 'echo "$$" && read -r go && exec >"$0" 2>&1 </dev/null && exec "$@"'
_CONFINED = ("setpriv", "--pdeathsig=KILL", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--")
"""Command prefix that limits a program to its starter's files, even if the starter is root."""


@dataclass(frozen=True)
class Daemon:
    """A program in a room. It sees this machine's files, and the network and processes of the room."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    """Command that becomes the program, and first does steps for which the program has no right."""
    reads: tuple[Path, ...] = ()
    """Files that the program reads only when it starts."""

    @property
    def digest(self) -> str:
        """Digest of command and files. When it changes, the running program is outdated."""
        said = json.dumps([self.prefix, self.argv, sorted(self.environment.items())]).encode()
        texts = (file.read_bytes() for file in self.reads)
        return hashlib.sha256(b"\0".join([said, *texts])).hexdigest()[:12]


def start(room: Room, daemons: Iterable[Daemon]) -> None:
    """Start the daemons that do not run, or run outdated. The caller holds the room's lock."""
    for daemon in daemons:
        if not runs(room, daemon):
            end(room, [daemon.name])
            _start(room, daemon, ())


def runs(room: Room, daemon: Daemon) -> bool:
    """Whether the daemon runs with its current command and files."""
    process, digest = _recorded(room, daemon.name)
    return _works(process) and digest == daemon.digest


def end(room: Room, names: Iterable[str]) -> None:
    """End daemons. Skip those that do not run."""
    for name in names:
        _end(room, _recorded(room, name)[0])
        _record_file(room, name).unlink(missing_ok=True)


def dead(room: Room, names: Iterable[str]) -> list[str]:
    """Return the daemons that do not run."""
    found = [(name, _recorded(room, name)[0]) for name in names]
    return [name for name, process in found if not _works(process)]


def _works(process: Process | None) -> bool:
    """Whether a process runs. A stopped process does nothing until another continues it, and counts as dead."""
    return process is not None and process.alive and not process.frozen


def last_words(room: Room, name: str) -> str:
    """Return the end of a daemon's output."""
    try:
        text = _log_file(room, name).read_bytes()[-_LOG_BYTES:]
    except OSError:
        return ""
    return last_lines(text.decode(errors="replace"))


def open_door(room: Room, name: str, address: str, port: int) -> int:
    """Relay a port of the loopback to an address in the room, and return the port.

    The port stays the same if possible, for programs that have recorded it. The caller holds the room's lock.
    """
    process, _ = _recorded(room, name)
    door = _door_file(room, name)
    with contextlib.suppress(FileNotFoundError, ValueError):
        known = int(door.read_text())
        if _works(process):
            return known
        with contextlib.suppress(OSError), _listening(known) as listener:
            return _open(room, name, listener, address, port)
    with _listening(0) as listener:
        return _open(room, name, listener, address, port)


def _open(room: Room, name: str, listener: socket.socket, address: str, port: int) -> int:
    argv = (sys.executable, "-I", "-S", str(_RELAY), str(listener.fileno()), address, str(port))
    _start(room, Daemon(name, argv), (listener.fileno(),))
    outside = int(listener.getsockname()[1])
    files.write(_door_file(room, name), str(outside))
    return outside


def _listening(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=256)


def _start(room: Room, daemon: Daemon, descriptors: Sequence[int]) -> None:
    folder = files.make_directory(room.folder / "daemons", 0o700)
    # The recorded process is nsenter. The program that it starts ends with it.
    inside = (*enter(room.running), "--net", "--pid", "--")
    log = _log_file(room, daemon.name)
    log.touch(0o600)
    # a session of its own: the room must not get the Ctrl-C that is meant for its starter
    argv = ["setsid", "--fork", "sh", "-euc", _WAIT, str(log), *inside, *daemon.prefix, *_CONFINED, *daemon.argv]
    what, pipe = f"cannot start {daemon.name}", subprocess.PIPE
    environment = {**ENVIRONMENT, **daemon.environment}
    try:
        starter = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=descriptors, env=environment, cwd=folder
        )
    except OSError as error:
        raise not_started(error, argv[0], room.name, what) from error
    word, output, errors = streams(starter)
    with word, output, errors:
        starter.wait()  # only setsid ends here: the program is not our child
        process = identify(int(output.readline() or 0))
        if process is None:
            raise RoomError(room.name, what, last_lines(errors.read().decode(errors="replace")), AGAIN)
        files.write(_record_file(room, daemon.name), json.dumps([process.instance, daemon.digest]), 0o600)
        # the process is already dead, and the step that waits for it reports that
        with contextlib.suppress(BrokenPipeError):
            word.write(b"go\n")
            word.flush()


def _end(room: Room, process: Process | None) -> None:
    """End the process, and wait until its program is gone, too."""
    if process is None or not process.alive:
        return
    process.send(signal.SIGSTOP)  # stop it, so that it starts no program after its children were listed
    while process.alive and not process.frozen:
        time.sleep(_POLL_S)
    programs = children(process)
    process.end(room.name)
    for program in programs:
        program.end(room.name)


def _recorded(room: Room, name: str) -> tuple[Process | None, str]:
    try:
        instance, digest = json.loads(_record_file(room, name).read_text())
    except (FileNotFoundError, ValueError):
        return None, ""
    return from_instance(str(instance)), str(digest)


def _record_file(room: Room, name: str) -> Path:
    return room.folder / "daemons" / f"{name}.json"


def _log_file(room: Room, name: str) -> Path:
    return room.folder / "daemons" / f"{name}.log"


def _door_file(room: Room, name: str) -> Path:
    return room.folder / "daemons" / f"{name}.port"
