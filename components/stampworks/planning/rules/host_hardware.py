"""Hardware of machines that exist: whether they are the declared ones, and whether their ports make one fabric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.plan import Host, HostRail, Plan
from stampworks.plan.host_facts import Content, HostSurvey, NetworkInterface, RdmaPort
from stampworks.planning.build.host_rails import ACTIVE, RDMA, fabric_ports
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.hosts import LOCK, Findings, Surveyed, group_of, named, surveyed
from stampworks.text.amounts import counted

MEMORY_SHARE_MIN = 0.9
"""Share of the memory that a kernel leaves after its start, at least: firmware and kernel keep a few percent."""
SAME_MEMORY = 0.05
"""Difference in memory that machines of one kind may have."""
SCRATCH_ARRAY = "stampworks-scratch"
"""Name of the array that the role scratch makes; its module refuses disks with anything else, too."""
_CLASSES = ("0x0302", "0x12")
"""PCI classes of accelerators: 3D controllers, and processing accelerators."""
_DEFAULT_KEYS = ("0x7fff", "0xffff")
"""The partition that every port is in, with limited and full membership (InfiniBand Architecture, 10.9.1.2)."""


def machines(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Every machine has the accelerators, NICs and memory of the machine that its pool declares."""
    found, judged = Findings(plan, "hosts.machine"), 0
    for host, survey in surveyed(plan, facts):
        group = group_of(plan, host)
        if group is None or group.machine.simulated or group.role != "worker":
            continue
        judged += 1
        hint = f"declare the machine that it is, or take it out of group {group.name}"
        for text in _differences(catalog.machines()[group.machine.name], survey):
            found.fail(host, text, hint)
    yield from found.all("all machines are as declared" if judged else "")


def _differences(row: catalog.Machine, survey: HostSurvey) -> Iterator[str]:
    there, ids = _accelerators(survey), catalog.accelerators()[row.accelerator].pci if row.accelerator else ()
    if ids is not UNKNOWN and (sum(there.values()) != row.accelerators or there.keys() - {*ids}):
        has = f"{row.accelerators} x {row.accelerator}" if row.accelerators else "none"
        yield f"it has {accelerators_text(there)}, and {row.name} has {has}"
    if isinstance(row.memory_mib, int) and survey.memory_mib < MEMORY_SHARE_MIN * row.memory_mib:
        yield f"it has {survey.memory_mib // 1024} GiB of memory, and {row.name} has {row.memory_mib // 1024} GiB"
    if isinstance(row.nics, int) and row.nics and catalog.protocol_of(row) in RDMA:
        rate, count = row.nic_rate_gbps, len(fabric_ports(row, survey))
        if count < row.nics:
            at = f" of {rate} Gb/s" if rate is not UNKNOWN else ""
            yield f"it has {counted(count, 'RDMA port')}{at}, and {row.name} has {row.nics}"


def _accelerators(survey: HostSurvey) -> Counter[str]:
    """Count accelerators by their ids, without cards for monitors."""
    return Counter(each.id for each in survey.accelerators if each.kind.startswith(_CLASSES))


def accelerators_text(there: Mapping[str, int]) -> str:
    """Return accelerators in words, with the catalog's names of those that it knows."""
    names = {id_: row.name for row in catalog.accelerators().values() if row.pci is not UNKNOWN for id_ in row.pci}
    said = [f"{count} x {names.get(id_, f'PCI {id_}')}" for id_, count in sorted(there.items())]
    return " and ".join(said) or "no accelerators"


def kinds(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """All machines of a pool are of one kind."""
    for group in plan.groups:
        there = [(host, survey) for host, survey in surveyed(plan, facts) if host.group == group.name]
        alike: dict[str, list[Host]] = defaultdict(list)
        memory = max((survey.memory_mib for _, survey in there), default=0)
        for host, survey in there:
            alike[_kind(survey, memory)].append(host)
        if len(alike) > 1:
            sides = "; ".join(f"{named(hosts)}: {kind}" for kind, hosts in alike.items())
            text = f"{group.name} has machines of {len(alike)} kinds: {sides}"
            yield Finding("hosts.kinds", "fail", text, "make a pool of each kind", "hosts.machines", subject=group.name)
        elif len(there) > 1:
            text = f"the {len(there)} machines of {group.name} are of one kind"
            yield Finding("hosts.kinds", "pass", text, "", "hosts.machines", subject=group.name)


def _kind(survey: HostSurvey, most_mib: int) -> str:
    """Describe a machine. Memory that differs little from the most is the same."""
    memory = most_mib if survey.memory_mib >= (1 - SAME_MEMORY) * most_mib else survey.memory_mib
    parts = [accelerators_text(_accelerators(survey)), counted(survey.cores, "core"), f"{memory // 1024} GiB"]
    return ", ".join([*parts, *([counted(len(survey.ports), "RDMA port")] if survey.ports else [])])


def ports(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """All ports of the fabric are up: RDMA ports are ACTIVE, and network interfaces have a carrier."""
    found, judged = Findings(plan, "hosts.ports"), 0
    for host, survey in surveyed(plan, facts):
        judged += len(host.rails)
        for rail in host.rails:
            port, interface = _port(survey, rail), _interface(survey, rail)
            if port is None and interface is None:
                hint = f"if the machine has other ports now: {LOCK}"
                found.fail(host, f"{rail.interface} of the lock is not there", hint)
            elif port and port.state != ACTIVE:
                found.fail(host, f"{port.name} is {port.state or 'in no state'}, not ACTIVE", _cause(port))
            elif port is None and interface and not interface.carrier:
                found.fail(host, f"{rail.interface} has no carrier", "see its cable and switch; ip link set up")
    yield from found.all(f"{counted(judged, 'port')} of the fabric are up" if judged else "")


def _cause(port: RdmaPort) -> str:
    if port.state == "INIT":
        return "no subnet manager has configured it: see opensm, or ask the owner of the fabric"
    return "see its cable and switch"


def fabric(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The ports of a rail are on one fabric: one link layer, one InfiniBand subnet and one partition."""
    there = [(host, survey) for host, survey in surveyed(plan, facts) if host.rails]
    found = [*_mixed(there)]
    for text, hint in dict.fromkeys(found):
        yield Finding("hosts.fabric", "fail", text, hint, "hosts.machines")
    if not found and any(_port(survey, rail) for host, survey in there for rail in host.rails):
        yield Finding("hosts.fabric", "pass", "the machines are on one fabric", "", "hosts.machines")


def _mixed(there: Surveyed) -> Iterator[tuple[str, str]]:
    for index in range(max((len(host.rails) for host, _ in there), default=0)):
        ports = [
            (host, port)
            for host, survey in there
            if index < len(host.rails) and (port := _port(survey, host.rails[index]))
        ]
        layers, subnets, keys = (defaultdict[str, list[Host]](list) for _ in range(3))
        for host, port in ports:
            layers[port.link_layer or "unknown"].append(host)
            if port.link_layer == "InfiniBand" and port.state == ACTIVE:
                subnets[port.subnet_prefix or "unknown"].append(host)
                own = sorted(partition(each) for each in port.partition_keys if each not in _DEFAULT_KEYS)
                keys[" ".join(own) or "the default one alone"].append(host)
        if len(layers) > 1:
            yield f"rail {index} has ports of two kinds: {_sides(layers)}", "set the ports to one kind (mlxconfig)"
        if len(subnets) > 1:
            text = f"rail {index} is on {len(subnets)} InfiniBand fabrics, by subnet prefix: {_sides(subnets)}"
            yield text, "take machines of one fabric"
        if len(keys) > 1:
            text = f"rail {index} is in {len(keys)} partitions, by P_Key: {_sides(keys)}"
            yield text, "ask the owner of the fabric for one partition, or take machines of one"


def partition(key: str) -> str:
    """Return a P_Key as a full member has it: the highest bit says how far a port is a member."""
    return f"0x{int(key, 16) | 0x8000:04x}" if key.startswith("0x") else key


def _sides(sides: Mapping[str, list[Host]]) -> str:
    return "; ".join(f"{side} on {named(hosts)}" for side, hosts in sides.items())


def mtus(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Ports of a rail have one MTU on all machines, and so have the inside addresses."""
    there = surveyed(plan, facts)
    found = False
    for what, mtu_of in _links(there):
        sides: dict[str, list[Host]] = defaultdict(list)
        for host, mtu in mtu_of.items():
            sides[str(mtu)].append(host)
        if len(sides) > 1:
            found = True
            text = f"MTU of {what}: {_sides(sides)}: packets of the larger one are lost"
            hint = "give all of them one MTU, and the switches at least that"
            yield Finding("hosts.mtu", "fail", text, hint, "hosts.machines", "warning")
    if len(there) > 1 and not found:
        yield Finding("hosts.mtu", "pass", "ports that meet have one MTU", "", "hosts.machines")


def _links(there: Surveyed) -> Iterator[tuple[str, dict[Host, int]]]:
    """Yield each network with the MTU of each host on it."""
    ends = {
        host: interface.mtu
        for host, survey in there
        for interface in survey.interfaces
        if interface.mtu and any(each.partition("/")[0] == host.inside for each in interface.addresses)
    }
    yield "the inside addresses", ends
    for index in range(max((len(host.rails) for host, _ in there), default=0)):
        rails = {
            host: interface.mtu
            for host, survey in there
            if index < len(host.rails) and (interface := _interface(survey, host.rails[index])) and interface.mtu
        }
        yield f"rail {index}", rails


def disks(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The disks that become scratch are empty, or hold scratch already."""
    found, judged = Findings(plan, "hosts.disks"), 0
    for host, survey in surveyed(plan, facts):
        group = group_of(plan, host)
        if group is None or group.scratch is None:
            continue
        judged += 1
        for disk in survey.disks:
            if disk.model != group.scratch.model:
                continue
            for each in [each for each in disk.content if not _is_scratch(each)][:1]:
                label = f" called {each.label}" if each.label else ""
                text = f"{each.device} would become {group.scratch.path}, and holds {each.kind}{label}"
                hint = f"save what is there; then as root: wipefs --all /dev/{each.device}"
                found.fail(host, text, hint)
    yield from found.all("disks for scratch are empty" if judged else "")


def _is_scratch(content: Content) -> bool:
    """Whether a disk is part of the array that the role scratch made, or held by that array."""
    return content.label.rpartition(":")[2] == SCRATCH_ARRAY or content.kind.startswith("part of md")


def _port(survey: HostSurvey, rail: HostRail) -> RdmaPort | None:
    return next((each for each in survey.ports if rail.interface in (each.interface, each.device)), None)


def _interface(survey: HostSurvey, rail: HostRail) -> NetworkInterface | None:
    return next((each for each in survey.interfaces if each.name == rail.interface), None)
