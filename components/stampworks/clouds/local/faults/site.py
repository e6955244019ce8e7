"""Place of a fault: the plan of a cluster, its room, and access to its nodes and switches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stampworks.clouds.faults import Injected
from stampworks.machine_room import RoomError, hands
from stampworks.machine_room.commands import failed, last_lines, run
from stampworks.machine_room.disks import NodeDisk, disk_of
from stampworks.machine_room.network import CommandBatch, Links
from stampworks.machine_room.nodes import run_inside
from stampworks.machine_room.room import Room
from stampworks.plan import Plan, Rail

NODE_S = 60


@dataclass(frozen=True)
class Site:
    """Access to a cluster for the code of a fault."""

    plan: Plan
    room: Room

    def disk(self, node: str) -> NodeDisk:
        """Return the disk of a node."""
        return disk_of(self.room, node)

    def rail(self, interface: str) -> Rail:
        """Return the rail with this interface."""
        return next(rail for rail in self.plan.fabric.rails if rail.interface == interface)

    def on_node(self, node: str, *argv: str) -> str:
        """Run a program of the node, and return its output. Raise RoomError if it fails."""
        done = run_inside(self.room, node, argv, NODE_S)
        if done.returncode != 0:
            why = last_lines(done.stderr) or f"{argv[0]} ended with {done.returncode}"
            raise failed(node, "cannot carry out the fault", why)
        return done.stdout

    def shell(self, node: str, script: str, *arguments: str) -> str:
        """Run a shell script on the node, which ends at the first command that fails."""
        return self.on_node(node, "sh", "-euc", script, "sh", *arguments)

    def on_switch(self, *argv: str) -> str:
        """Run a program of this host in the network of the switches, and return its output."""
        return run([*self.room.reach, *argv], self.room.name, "cannot carry out the fault", timeout=NODE_S)

    def ports(self) -> Links:
        """Return the interfaces of the switches."""
        return hands.look(self.room)[""]

    def arrange(self, namespace: str, ip: tuple[str, ...] = (), tc: tuple[str, ...] = ()) -> None:
        """Run lines of `ip` and `tc` in a namespace of the room."""
        hands.arrange(self.room, [CommandBatch(namespace, ip, tc)])


Act = Callable[[Site, Injected], object]
Ask = Callable[[Site, Injected], bool]


@dataclass(frozen=True)
class Means:
    """Functions that inject and clear a fault. Both may be repeated, also after a partial run."""

    inject: Act
    clear: Act
    there: Ask
    """Checks the cluster, not the record."""


def each_of(*parts: Means, then: Act | None = None) -> Means:
    """Combine parts: inject them in this order, clear them in the other. `then` follows both."""

    def inject(site: Site, one: Injected) -> None:
        for part in parts:
            part.inject(site, one)
        if then:
            then(site, one)

    def clear(site: Site, one: Injected) -> None:
        for part in reversed(parts):
            part.clear(site, one)
        if then:
            then(site, one)

    return Means(inject, clear, lambda site, one: all(part.there(site, one) for part in parts))


_RESIDENT = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())

def go_into_background():
    if child := os.fork():
        with open(sys.argv[-1], "w") as file:
            file.write(str(child))
        os._exit(0)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)  # until here it could say what went wrong

"""


def resident(name: str, program: str, arguments: Callable[[Site, Injected], tuple[str, ...]]) -> Means:
    """Return a fault that is a Python program on the node, which runs in the background."""
    path = f"/run/stampworks-{name}"
    who = f'pid=$(cat {path} 2>/dev/null) && grep -qs {path} "/proc/$pid/cmdline" || pid=\n'

    def inject(site: Site, one: Injected) -> None:
        start = who + '[ -n "$pid" ] || python3 -IS -c "$@" </dev/null >/dev/null'
        site.shell(one.where, start, _RESIDENT + program, *arguments(site, one), path)

    return Means(
        inject,
        clear=lambda site, one: site.shell(one.where, who + f'[ -z "$pid" ] || kill "$pid"; rm -f {path}'),
        there=lambda site, one: bool(site.shell(one.where, who + 'echo "$pid"').strip()),
    )


def number(one: Injected) -> float:
    """Return the severity of a fault. Raise RoomError if it has none."""
    if one.severity is None:
        raise RoomError(one.place, f"{one.fault} needs a severity")
    return one.severity
