"""Programs of the host: run them within a time limit and in a clean environment, and report the end of their output."""

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
"""Environment of every program of the room. A user's exported variables must not change a node."""

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
"""Programs that the room needs, and their Debian packages."""


MAPPED_ROOT = () if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--map-auto")
"""Command prefix that maps the users of an ordinary user's room to subordinate ids."""

CONTAINED = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *MAPPED_ROOT[1:])
"""Command prefix for programs that mount or leave children. Both end with the program, however it ends."""


def run(
    argv: Sequence[str],
    where: str,
    what: str,
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return its output. `where` and `what` name its purpose in errors."""
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
    """Run a long command and pass on each line of its output. End it at the time limit, or when this process ends."""
    if not shutil.which(argv[0], path=ENVIRONMENT["PATH"]):
        raise missing(argv[0], where, what)
    # a process that outlived its caller would write into files that the next attempt removes
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
        cause = ""  # a long command may print the cause long before it ends
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
    """Return input, output and errors of a process that was started with three pipes."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise TypeError("this process was started without pipes")
    return process.stdin, process.stdout, process.stderr


def failed(where: str, what: str, why: str, *, place: Path | None = None, outer: int = 0) -> RoomError:
    """Return the error for a message of a program or the kernel, with its remedy."""
    return RoomError(where, what, why, remedy(why, ENVIRONMENT["PATH"], place=place, outer=outer))


def not_started(error: OSError, program: str, where: str, what: str) -> RoomError:
    """Return the error for a process that did not start: its program is missing, or the machine allows no more
    processes."""
    if isinstance(error, FileNotFoundError):
        return missing(program, where, what)
    return failed(where, what, str(error.strerror))


def missing(program: str, where: str, what: str) -> RoomError:
    """Return the error about a program that is not installed, with the package that has it."""
    package = dict(HOST_PROGRAMS).get(program, program)
    return RoomError(where, what, f"the program {program} is missing", f"as root: apt-get install {package}")


def last_lines(text: str) -> str:
    """Return the end of a program's output, which usually has the reason of its failure."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-4:])
