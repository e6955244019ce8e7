"""Keep a CPU of a shared host awake during measurements whose steps would each wake it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

LIMIT_S = 600
"""Seconds after which the process ends in any case."""
LOOP = """
import os, sys, time
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
end = time.monotonic() + float(sys.argv[1])
while os.getppid() == int(sys.argv[2]) and time.monotonic() < end:
    pass
"""


@contextlib.contextmanager
def awake(shared: bool) -> Iterator[None]:
    """Keep a CPU busy at the lowest priority, if nodes share their host.

    A sleeping virtual CPU returns only when its own host has time: on a busy host that took up to half a second, in
    which a link carries nothing, and of 0.19 Gb/s only 0.02 were measured (0.19 with this).
    """
    if not shared:
        yield
        return
    # Pass the parent's id: the parent may end before the loop starts.
    words = [sys.executable, "-SEc", LOOP, str(LIMIT_S), str(os.getpid())]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()
