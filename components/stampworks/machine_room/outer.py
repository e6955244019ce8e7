"""The outer process of a room, whose end ends everything in the room."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from typing import IO

from stampworks.machine_room import privileges
from stampworks.machine_room.commands import ENVIRONMENT, MAPPED_ROOT, last_lines, not_started, streams
from stampworks.machine_room.errors import RoomError
from stampworks.machine_room.processes import Process, identify
from stampworks.machine_room.remedies import remedy

START_TIMEOUT_S = 20
WHAT = "cannot start the machine room"

UNSHARE = ("unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child")

# Runs as pid 1 of the room. At first /proc is still the host's, so that it can report its pid there. Then it waits for
# a line: if its starter dies before it has recorded the pid, the script reads the end of file and ends.
PID_1 = """
read -r pid rest </proc/self/stat
echo "$pid"
read -r go
mount -t proc proc /proc
mount -t tmpfs -o mode=755 room /run
mkdir /run/netns
for scope in all default; do
  off=/proc/sys/net/ipv6/conf/$scope/disable_ipv6
  if [ -e "$off" ]; then echo 1 >"$off"; fi
done
ip link set lo up
hostname "$1"
echo ready
exec >/dev/null 2>&1
# SIGCHLD ignored: the kernel reaps whatever is left to this process. (A trap of dash's would not survive exec.)
if [ "$2" = leashed ]; then
  exec env --ignore-signal=CHLD cat  # ends when the other end of its input is closed, by whatever means
fi
exec env --ignore-signal=CHLD sleep infinity </dev/null
"""


def start(name: str, hostname: str, record: Callable[[Process], None], *, leashed: bool) -> IO[bytes]:
    """Start a room's outer process. Return the writing end of its input: closing it ends a leashed room."""
    # a session of its own: the room must not get the Ctrl-C that is meant for its starter
    argv = ["setsid", "--fork", *UNSHARE, *MAPPED_ROOT[1:], "sh", "-euc", PID_1, "sh", hostname]
    pipe = subprocess.PIPE
    try:
        starter = subprocess.Popen(
            [*argv, "leashed" if leashed else "free"], stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT, cwd="/"
        )
    except OSError as error:
        raise not_started(error, argv[0], name, WHAT) from error
    leash, output, errors = streams(starter)
    with output, errors:
        starter.wait()  # only setsid ends here: the outer process is not our child
        try:
            process = identify(int(_line(output) or 0))
            if process:
                record(process)
                leash.write(b"go\n")
                leash.flush()
            if not process or _line(output) != "ready":
                leash.close()  # a process that still waits for the line ends, which closes the pipe that is read next
                raise _refused(name, last_lines(errors.read().decode(errors="replace")))
        except BaseException:
            leash.close()
            raise
    return leash


def _line(stream: IO[bytes]) -> str:
    """Return the next line; empty if none will come."""
    line, deadline = b"", time.monotonic() + START_TIMEOUT_S
    while not line.endswith(b"\n") and select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
        if not (more := os.read(stream.fileno(), 1)):  # read no byte beyond the line: nothing may stay in a buffer
            break
        line += more
    return line.decode().strip()


def _refused(name: str, why: str) -> RoomError:
    path = ENVIRONMENT["PATH"]
    # a failure without a known remedy is mostly a missing privilege
    hint = remedy(why, path) or privileges.remedy(why, path)
    return RoomError(name, WHAT, why or f"its outer process did not get ready within {START_TIMEOUT_S} s", hint)
