"""Limits of jobs on this node: locked memory, open files, shared memory, disk, and packets of full size."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .bounded import within
from .ranks import Ranks
from .result import Answer

HEADERS = 28
"""IP's and UDP's, in a packet's size."""
SMALLER = (8900, 4000, 1500, 1400, 576)
"""Sizes to try when a packet of full size does not arrive."""
MTU_DISCOVER, PROBE = 10, 3
"""IP_MTU_DISCOVER and IP_PMTUDISC_PROBE of Linux: never fragment a packet, and ignore reported sizes."""


@dataclass(frozen=True)
class Options:
    """Settings of the check of limits."""

    directories: tuple[str, ...] = ("/", "/tmp", "/dev/shm")  # noqa: S108 (it is looked at, not written to)
    mounts: tuple[str, ...] = ()
    """Directories that must be mounts of their own."""
    wait: float = 2.0
    """Seconds until a directory or a packet counts as lost."""

    def __post_init__(self) -> None:
        if self.wait <= 0:
            raise ValueError("wait must be more than 0")


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Report the limits of a process here, and probe directories and rails."""
    _process(answer)
    _memory(answer)
    for directory in options.directories:
        _directory(directory, options.wait, answer)
    _mounts(options.mounts, answer)
    rails = ranks.cluster.rails_of(ranks.node)
    for rail in rails:
        try:
            answer.value("mtu", "bytes", mtu(rail), rail=rail)
        except (OSError, ValueError) as error:
            answer.problem(f"its MTU cannot be read: {error}", rail=rail)
    if ranks.world > 1 and ranks.cluster.rails:
        _packets(ranks, rails, options, answer)


def _process(answer: Answer) -> None:
    for quantity, unit, which in (
        ("memlock", "bytes", resource.RLIMIT_MEMLOCK),
        ("open_files", "count", resource.RLIMIT_NOFILE),
    ):
        soft, _ = resource.getrlimit(which)
        if soft == resource.RLIM_INFINITY:
            answer.text(quantity, "limit", "unlimited")
        else:
            answer.value(quantity, unit, float(soft))


def _memory(answer: Answer) -> None:
    found = dict(re.findall(r"^(\w+):\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE))
    answer.value("memory", "bytes", float(found["MemTotal"]) * 1024)
    answer.value("memory_available", "bytes", float(found["MemAvailable"]) * 1024)
    if "HugePages_Total" in found:
        answer.value("hugepages", "count", float(found["HugePages_Total"]))


def _directory(directory: str, wait: float, answer: Answer) -> None:
    try:
        usage = within(wait, lambda: shutil.disk_usage(directory), directory)
        files = within(wait, lambda: os.statvfs(directory), directory)
    except OSError as error:
        answer.problem(f"{directory}: {error.strerror or error}")
        return
    answer.value("directory_size", "bytes", float(usage.total), device=directory)
    answer.value("directory_free", "bytes", float(usage.free), device=directory)
    if files.f_files:  # some file systems do not count
        answer.value("directory_files_free", "count", float(files.f_favail), device=directory)


def _mounts(wanted: tuple[str, ...], answer: Answer) -> None:
    mounted = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        path = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        mounted[path] = after.split()[0]
    for path in wanted:
        if path in mounted:
            answer.text("mount", path, mounted[path])
        else:
            answer.problem(f"{path} is not mounted")


def mtu(interface: str) -> float:
    """Return the MTU of an interface in bytes. Raise OSError if there is no such interface."""
    return float(Path(f"/sys/class/net/{interface}/mtu").read_text())


def _packets(ranks: Ranks, rails: dict[str, str], options: Options, answer: Answer) -> None:
    """Send a packet of full size to both neighbours on each rail, and report the largest that arrived complete."""
    meeting = ranks.meeting
    with contextlib.ExitStack() as stack:
        doors = {}
        for rail, address in rails.items():
            door = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            door.bind((address, 0))
            threading.Thread(target=_acknowledge, args=(door,), daemon=True).start()
            doors[rail] = door.getsockname()[1]
        there = meeting.exchange(doors)
        order = sorted(there)
        place = order.index(ranks.rank)
        neighbours = {order[place - 1], order[(place + 1) % len(order)]} - {ranks.rank}
        for rank in sorted(neighbours):
            name = meeting.names[rank]
            for rail, address in ranks.cluster.rails_of(name).items():
                if rail in rails and rail in there[rank]:
                    _path(rails[rail], (address, there[rank][rail]), name, rail, options, answer)
        meeting.exchange(None)  # all ranks acknowledge until then
    for rank, why in meeting.absent.items():
        if not ranks.rank:
            answer.problem(f"no answer: {why}", node=ranks.name_of(rank))


def _acknowledge(door: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the thread ends with the program
        while True:
            packet, sender = door.recvfrom(2**16)
            door.sendto(str(len(packet)).encode(), sender)


def _path(source: str, target: tuple[str, int], peer: str, rail: str, options: Options, answer: Answer) -> None:
    try:
        full = min(int(mtu(rail)), 2**16 - 1)  # largest packet of IP
    except (OSError, ValueError):
        full = 1500
    for size in (full, *(each for each in SMALLER if each < full)):
        if arrives(source, target, size, options.wait if size == full else options.wait / 4):
            answer.value("path_mtu", "bytes", float(size), peer=peer, rail=rail)
            return
    answer.problem(f"no packet reaches {peer}, however small", rail=rail)


def arrives(source: str, target: tuple[str, int], size: int, wait: float) -> bool:
    """Whether an unfragmented packet of this size arrives; three attempts, because one may be lost."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.IPPROTO_IP, MTU_DISCOVER, PROBE)
        probe.bind((source, 0))
        for _ in range(3):
            probe.settimeout(wait / 3)
            with contextlib.suppress(OSError):
                probe.sendto(bytes(size - HEADERS), target)
                deadline = time.monotonic() + wait / 3
                while time.monotonic() < deadline:
                    said, sender = probe.recvfrom(100)
                    if sender == target and said == str(size - HEADERS).encode():
                        return True
    return False
