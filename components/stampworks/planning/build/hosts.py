"""Machines that exist: which of them become nodes, and the networks that they are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface

from stampworks.declaration import Declaration, DeclarationSource, LockedHost
from stampworks.declaration.wording import shown
from stampworks.plan import Fabric, Group, Host, HostRail, Hosts, JumpHost
from stampworks.planning.build.notes import Notes
from stampworks.text.amounts import counted
from stampworks.text.names import fold

LOCK = "`stampworks hosts lock -s STACK` asks the machines, and shows their host keys"


def listed(declaration: Declaration) -> bool:
    """Whether the machines of the cluster exist, and are listed."""
    return bool(declaration.hosts.machines or declaration.hosts.list_command)


def build(source: DeclarationSource, groups: Sequence[Group], notes: Notes) -> Hosts | None:
    """Return the machines with what the lock knows of them, and refuse a list that is not locked or too short."""
    declaration = source.sound
    if not listed(declaration):
        return None
    declared, via = declaration.hosts, declaration.hosts.via
    machines = tuple(_machines(source, notes))
    for group in groups:
        there = [each for each in machines if each.group == group.name]
        if not machines or group.role == "scheduling only":
            continue
        if len(there) < group.count:
            what = f"{group.name} has {counted(group.count, 'node')}, and {counted(len(there), 'machine')} for them"
            hint = f"list more machines with group: {group.name}"
            notes.problem("hosts.machines" if declared.machines else "hosts.list_command", what, hint)
        elif spare := [each.id for each in there[group.count :]]:
            why = f"{fold(spare)} in reserve: the next `up` gives one the name of a node whose machine has died"
            notes.reason(f"hosts.{group.name}", why)
        _check_rails(group, there, notes)
    if machines:
        notes.reason("groups.nodes", "names are given to machines by their order in the list, within each group")
    return Hosts(
        provider=declared.provider,
        user=declared.user,
        identity_file=declared.identity_file,
        via=JumpHost(via.address, via.port, via.user, via.host_key) if via.address else None,
        machines=machines,
    )


def _machines(source: DeclarationSource, notes: Notes) -> Iterator[Host]:
    declared = source.sound.hosts
    known = {(each.address, each.port): each for each in source.lock.hosts}
    unlocked = []
    for index, machine in enumerate(declared.machines):
        locked = known.pop((machine.address, machine.port), None)
        if locked is None:
            unlocked.append(machine.address)
            continue
        yield _host(locked, machine.group, machine.rack)
        if machine.host_key and machine.host_key.split()[:2] != locked.host_key.split()[:2]:
            what = f"{machine.address} has another host key here than in the lock"
            notes.problem(f"hosts.machines[{index}].host_key", what, LOCK)
    if unlocked:
        notes.problem("hosts.machines", f"the lock has no {fold(unlocked)}", LOCK)
    if not declared.list_command:
        return
    if not known:
        notes.problem("hosts.list_command", "the lock has no machine that the command has printed", LOCK)
    for locked in known.values():
        yield _host(locked, locked.group, locked.rack)


def _host(locked: LockedHost, group: str, rack: str) -> Host:
    rails = tuple(HostRail(each.interface, each.address) for each in locked.rails)
    inside = locked.inside or locked.address
    return Host(
        locked.address, locked.port, inside, locked.host_key, locked.machine_id, group, rack or locked.rack, rails
    )


def _check_rails(group: Group, there: Sequence[Host], notes: Notes) -> None:
    """Refuse machines whose ports on the fabric are fewer than those of the catalog's machine."""
    if group.rails is None:
        return
    if few := [each.id for each in there if len(each.rails) < group.rails]:
        what = f"{group.machine.name} has {counted(group.rails, 'port')} on the fabric, and {fold(few)} fewer"
        notes.problem("hosts", what, f"declare the machine that they are; {LOCK}")


def joined(fabric: Fabric, made: Hosts | None, groups: Sequence[Group], notes: Notes) -> Fabric:
    """Give the rails the interfaces and ranges that the machines have."""
    if made is None:
        return fabric
    there = [each for group in groups if group.role == "worker" for each in made.of_group(group.name)]
    rails = []
    for rail in fabric.rails:
        ports = [each.rails[rail.index] for each in there if rail.index < len(each.rails)]
        names = {port.interface for port in ports}
        ranges = {network_of(port.address) for port in ports}
        if len(names) > 1:
            what = f"the port of rail {rail.index} is called {' and '.join(sorted(map(shown, names)))}"
            hint = "give the ports one name on all machines, as a .link file of systemd-networkd does"
            notes.problem("hosts", what, hint)
        if len(ranges) > 1:
            what = f"the ports of rail {rail.index} have addresses of {fold(sorted(each or 'none' for each in ranges))}"
            notes.problem("hosts", what, "give the ports of a rail addresses of one range, or none")
        rails.append(replace(rail, interface=next(iter(names), rail.interface), cidr=next(iter(ranges), rail.cidr)))
    return replace(fabric, rails=tuple(rails))


def network_of(address: str) -> str:
    """Return the range of an address with its prefix length; empty for a port without an address."""
    return str(IPv4Interface(address).network) if address else ""
