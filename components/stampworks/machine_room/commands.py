"""Running programs of the host: bounded in time, in a clean environment, failing with their own last words."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from stampworks.machine_room.errors import AGAIN, RoomError
from stampworks.machine_room.remedies import remedy

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
"""What every program of the room gets: what a user exports in a shell must not decide what a node is."""

HOST_PROGRAMS = (
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setsid", "util-linux"),
    ("setpriv", "util-linux"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("mmdebstrap", "mmdebstrap"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("newuidmap", "uidmap"),
)
"""Each program the room needs, and the Debian package that has it."""


MAPPED_ROOT = () if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--map-auto")
"""Command prefix under which an ordinary user's room owns what it owns: its users are mapped to subordinate ids."""

CONTAINED = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *MAPPED_ROOT[1:])
"""Command prefix of what makes mounts or leaves children: they end with it, however it ends."""


def run(
    argv: Sequence[str],
    where: str,
    what: str,
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a command and returns its output; `where` and `what` say in an error what it was for."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment or ENVIRONMENT,
            cwd="/",
        )
    except OSError as error:
        raise not_started(error, argv[0], where, what) from error
    except subprocess.TimeoutExpired as late:
        raise RoomError(where, what, f"{argv[0]} did not finish within {timeout:g} s", AGAIN) from late
    if done.returncode != 0:
        raise failed(where, what, last_lines(done.stderr) or f"{argv[0]} ended with {done.returncode}")
    return done.stdout


def watch(
    argv: Sequence[str],
    where: str,
    what: str,
    said: Callable[[str], None],
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a long command and hands on each line it says; ends it when it is late, or when this process ends."""
    if not shutil.which(argv[0], path=ENVIRONMENT["PATH"]):
        raise missing(argv[0], where, what)
    # if it outlived its caller it would write into what the next attempt clears away
    command = ["setpriv", "--pdeathsig", "KILL", *CONTAINED, *argv]
    pipe, own = subprocess.PIPE, environment or ENVIRONMENT
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=own, cwd="/"
        )
    except OSError as error:
        raise not_started(error, command[0], where, what) from error
    with process:
        alarm = threading.Timer(timeout, process.kill)
        last: deque[str] = deque(maxlen=8)
        cause = ""  # a long command may say it long before it gives up
        try:
            alarm.start()
            for line in process.stdout or ():
                last.append(line.strip())
                cause = cause or (line.strip() if remedy(line, ENVIRONMENT["PATH"]) else "")
                said(line.strip())
        except BaseException:
            process.kill()
            raise
        finally:
            late = not alarm.is_alive()
            alarm.cancel()
    if late:
        raise RoomError(where, what, f"{argv[0]} did not finish within {timeout:g} s", AGAIN)
    if process.returncode != 0:
        raise failed(where, what, cause or last_lines("\n".join(last)) or f"{argv[0]} ended with {process.returncode}")


def streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """Input, output and errors of a process that was started with a pipe for each."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise TypeError("this process was started without pipes")
    return process.stdin, process.stdout, process.stderr


def failed(where: str, what: str, why: str, *, place: Path | None = None, outer: int = 0) -> RoomError:
    """What a program or the kernel said, with what most likely helps: see `remedy`."""
    return RoomError(where, what, why, remedy(why, ENVIRONMENT["PATH"], place=place, outer=outer))


def not_started(error: OSError, program: str, where: str, what: str) -> RoomError:
    """Why there is no process: its program is not there, or the machine has no room for one more."""
    if isinstance(error, FileNotFoundError):
        return missing(program, where, what)
    return failed(where, what, str(error.strerror))


def missing(program: str, where: str, what: str) -> RoomError:
    package = dict(HOST_PROGRAMS).get(program, program)
    return RoomError(where, what, f"the program {program} is missing", f"as root: apt-get install {package}")


def last_lines(text: str) -> str:
    """The end of what a program said, which is where it says why it failed."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-4:])
