"""Holder of a lock: a text for people, and an identity for processes that find the remains of a killed holder."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from datetime import UTC, datetime
from pathlib import Path

_PROCESS = re.compile(r".* \(process (\d+) begun (\d+) in (\S+)\)")


def ourselves() -> str:
    """Return the name of our user and process."""
    who = f"{getpass.getuser()}@{socket.gethostname()} since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    begun = _begun(os.getpid())
    return f"{who} (process {os.getpid()} begun {begun} in {_space()})" if begun else who


def person(holder: str) -> str:
    """Return the name of a lock's holder without the process."""
    return holder.partition(" (")[0] or "somebody"


def is_gone(holder: str) -> bool:
    """Return whether the holder was a process of this machine that has ended; other holders are unknown."""
    found = _PROCESS.fullmatch(holder)
    return found is not None and found[3] == _space() and _begun(int(found[1])) != found[2]


def _space() -> str:
    """Return an id of the space in which process numbers are unique: this boot and this namespace."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}.{Path('/proc/self/ns/pid').stat().st_ino}"
    return ""


def _begun(process: int) -> str:
    """Return the start of a process in ticks since the boot; empty if there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
