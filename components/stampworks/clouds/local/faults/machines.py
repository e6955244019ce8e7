"""Faults of whole nodes: off, frozen, slow."""

from __future__ import annotations

import signal

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults.site import Act, Means, Site, number, resident
from stampworks.machine_room.nodes import power_on

# -- off and frozen


def _power_off(site: Site, one: Injected) -> None:
    if process := site.disk(one.where).process:
        process.end(one.where)


NO_POWER = Means(
    inject=_power_off,
    clear=lambda site, one: power_on(site.room, one.where),
    there=lambda site, one: site.disk(one.where).process is None,
)


def _signal_all(number: signal.Signals) -> Act:
    """Return an act that signals all processes of a node.

    Its first process gets signals only from outside.
    """

    def send(site: Site, one: Injected) -> None:
        if process := site.disk(one.where).process:
            site.shell(one.where, f"kill -{number.value} -1")
            process.send(number)

    return send


def _is_frozen(site: Site, one: Injected) -> bool:
    process = site.disk(one.where).process
    return process is not None and process.frozen


FROZEN = Means(inject=_signal_all(signal.SIGSTOP), clear=_signal_all(signal.SIGCONT), there=_is_frozen)


# -- slow: the processes are stopped for a part of every few milliseconds. Under a CPU quota they would be ready and
# wait, and the measurements leave waiting out, because simulated nodes share their processors

_ROUND_S = 0.04
_THROTTLE = """
import time
kept = float(sys.argv[1])
go_into_background()

def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0

def send(number):
    # whoever has come in from outside has no parent here; out there one waits, who would stop with it for good
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in (1, os.getpid()) and parent(pid):
            try:
                os.kill(int(pid), number)
            except ProcessLookupError:
                pass

try:
    while True:
        send(signal.SIGSTOP)
        time.sleep((1 - kept) * ROUND_S)
        send(signal.SIGCONT)
        time.sleep(kept * ROUND_S)
finally:
    os.kill(-1, signal.SIGCONT)  # whoever ends this must not stay stopped by it
""".replace("ROUND_S", str(_ROUND_S))
SLOW_CPU = resident("cpu-slow", _THROTTLE, lambda _, one: (str(number(one)),))
