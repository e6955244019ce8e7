"""Common tools for accelerators, RDMA and disks, if a node has them: nccl-tests, ib_write_bw and fio.

Their output is made for people, so that it is parsed with suspicion: N/A is not 0, an average over all sizes is no rate
of any size, and a truncated output is a problem and no value.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .inventory import ran
from .ranks import Ranks
from .result import Answer
from .timing import Spread

NCCL_ROW = re.compile(r" *(\d+) +\d+ +\w+ +\S+ +\S+ +(\S+) +(\S+) +(\S+) +(\S+) +\S+ +\S+ +\S+ +(\S+) *")
NCCL_END = "# Avg bus bandwidth"
IB_HEAD = re.compile(r"#bytes +#iterations +BW peak\[\S+\] +BW average\[(\S+)\]")
IB_ROW = re.compile(r" *(\d+) +(\d+) +(\S+) +(\S+)(?: +\S+)? *")
IB_END = re.compile(r"-{20,}")
GBPS = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9}
"""Units of ib_write_bw. Without --report_gbits its MB are 2^20 bytes."""
RDMA = Path("/sys/class/infiniband")
SERVER_S = 1.0
"""Seconds until ib_write_bw listens, which it does not report."""


class Unreadable(Exception):  # noqa: N818 (reads as what happened)
    """Output of a tool that is no result, and why."""


@dataclass(frozen=True)
class Options:
    """Settings of the tools: which to run, and on what."""

    accelerators: int = 0
    """Number of accelerators for all_reduce_perf; 0 skips it."""
    sizes: tuple[str, str] = ("8M", "8G")
    """Smallest and largest size, in the form of all_reduce_perf."""
    rdma: bool = False
    """Whether ib_write_bw shall measure each RDMA device that two neighbours both have: ranks 0 and 1, 2 and 3, ..."""
    directories: tuple[str, ...] = ()
    """Directories for fio."""
    bytes: int = 2**28
    """Bytes of fio's file."""
    seconds: float = 5.0
    """Seconds of the measurement by ib_write_bw."""
    wait: float = 300.0
    """Seconds until a tool counts as hung."""

    def __post_init__(self) -> None:
        if self.seconds < 1 or self.wait <= 0 or self.bytes < 1 or self.accelerators < 0:
            raise ValueError("seconds must be 1 or more, wait and bytes more than 0, accelerators 0 or more")


@dataclass(frozen=True)
class Reading:
    """A quantity as a tool gives it."""

    quantity: str
    unit: str
    spread: Spread
    bytes: int = 0


def run(ranks: Ranks, options: Options, answer: Answer) -> None:
    """Run the requested tools and report their figures. A missing tool is a problem."""
    if options.accelerators:
        begin, end = options.sizes
        command = ["all_reduce_perf", "-b", begin, "-e", end, "-f", "2", "-g", str(options.accelerators)]
        _use(command, read_nccl, options, answer)
    if options.rdma:
        _between_neighbours(ranks, options, answer)
    for directory in options.directories:
        for way in ("write", "read"):
            command = ["fio", "--name=stampworks", f"--directory={directory}", f"--rw={way}", f"--size={options.bytes}"]
            command += ["--bs=1m", "--ioengine=psync", "--end_fsync=1", "--unlink=1", "--output-format=json"]
            _use(command, read_fio, options, answer, device=directory)


def _use(
    command: Sequence[str],
    read: Callable[[str], Sequence[Reading]],
    options: Options,
    answer: Answer,
    tell: bool = True,
    **where: Any,
) -> None:
    """Run a tool and add its values, or the reason why there are none."""
    if shutil.which(command[0]) is None:
        answer.text("skipped", command[0], "this node has no such program")
        return
    try:
        done = ran(command, options.wait)
        if done.returncode:
            raise Unreadable(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
        for one in read(done.stdout) if tell else ():
            answer.value(one.quantity, one.unit, one.spread, bytes=one.bytes, **where)
    except (OSError, Unreadable) as error:
        answer.problem(f"{command[0]}: {error}")


def _between_neighbours(ranks: Ranks, options: Options, answer: Answer) -> None:
    there = ranks.meeting.exchange(rdma_devices(), options.wait)
    if not any(there.values()):
        answer.text("skipped", "ib_write_bw", "no node has an RDMA device")
        return
    both = sorted({*there[ranks.rank]} & {*there.get(ranks.rank ^ 1, [])})
    for number in range(max(map(len, there.values()))):
        ranks.meeting.exchange(number, options.wait)  # all begin at once
        if number < len(both):
            _between(ranks, both[number], options, answer)


def rdma_devices() -> list[str]:
    """Return the names of this node's RDMA devices."""
    try:
        return sorted(each.name for each in RDMA.iterdir())
    except OSError:
        return []


def _between(ranks: Ranks, device: str, options: Options, answer: Answer) -> None:
    """Measure writes of the second of two neighbours into the memory of the first."""
    peer = ranks.meeting.names[ranks.rank ^ 1]
    command = ["ib_write_bw", f"--ib-dev={device}", "--report_gbits", "-F", f"--duration={options.seconds:.0f}"]
    writes = ranks.rank % 2 == 1
    if writes:
        time.sleep(SERVER_S)
        node = ranks.cluster.named(peer)
        command.append(node.address if node else peer)
    _use(command, read_ib, options, answer, tell=writes, peer=peer, device=device)


def read_nccl(output: str) -> list[Reading]:
    """Return the rate at each size, out of place. A wrong result at one size invalidates all."""
    if NCCL_END not in output:
        raise Unreadable("its output does not come to its end")
    found = []
    for line in output.splitlines():
        if row := NCCL_ROW.fullmatch(line):
            size, _, algbw, busbw, *wrong = row.groups()
            if bad := [each for each in wrong if each not in ("0", "N/A")]:
                raise Unreadable(f"{bad[0]} wrong results at {size} bytes")
            for name, cell in (("algbw", algbw), ("busbw", busbw)):
                rate = _number(cell)
                if rate:  # for few bytes it prints 0.00, which is not a rate
                    found.append(Reading(f"nccl_all_reduce_{name}", "GB/s", _as_said(rate), int(size)))
    if not found:
        raise Unreadable("it has no row with a rate")
    return found


def read_ib(output: str) -> list[Reading]:
    """The average of a run; with a duration it has no peak and prints 0 instead."""
    lines = output.splitlines()
    heads = [(number, head[1]) for number, line in enumerate(lines) if (head := IB_HEAD.search(line))]
    if not heads:
        raise Unreadable("it has no table")
    number, unit = heads[-1]
    if unit not in GBPS:
        raise Unreadable(f"it measures in {unit}")
    rows = []
    for line in lines[number + 1 :]:
        if IB_END.fullmatch(line.strip()):
            break
        if row := IB_ROW.fullmatch(line.replace("\t", " ")):
            rows.append(row)
    else:
        raise Unreadable("its output does not come to its end")
    rates = [(int(row[1]), _number(row[4])) for row in rows]
    found = [Reading("ib_write_bandwidth", "Gb/s", _as_said(rate * GBPS[unit]), size) for size, rate in rates if rate]
    if not found:
        raise Unreadable("it has no row with a rate")
    return found


def read_fio(output: str) -> list[Reading]:
    """The rates of all jobs of a run; a direction in which nothing was moved has none."""
    try:
        told = json.loads(output[output.index("{") :])  # fio may print warnings first
        found = []
        for job in told["jobs"]:
            if job["error"]:
                raise Unreadable(f"job {job['jobname']}: error {job['error']}")
            found += [_fio_way(job[way], way) for way in ("write", "read") if job[way]["io_bytes"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unreadable("its output is not what fio says as JSON, or does not come to its end") from None
    if not found:
        raise Unreadable("it has moved nothing")
    return found


def _fio_way(told: dict[str, Any], way: str) -> Reading:
    rate, samples = told["bw_bytes"] / 1e6, int(told.get("bw_samples", 0))
    if samples < 2:
        return Reading(f"fio_{way}", "MB/s", _as_said(rate))
    low, high = told["bw_min"] * 1024 / 1e6, told["bw_max"] * 1024 / 1e6
    return Reading(f"fio_{way}", "MB/s", Spread(rate, low, high, samples, "an average; low and high as fio has them"))


def _as_said(rate: float) -> Spread:
    return Spread(rate, rate, rate, 1, "an average of the tool's, which gives no spread")


def _number(cell: str) -> float | None:
    """Return a number; None for N/A and other text."""
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None
