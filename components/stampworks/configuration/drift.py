"""Drift of a cluster in words: a pure function of an inventory and a look at its hosts.

Drift has three layers, because different steps repair them. *Cloud*: machines and their network, which the cloud's own
resources read. *System*: the changes that the playbooks would make. *Runtime*: the reports of nodes, compared with the
plan. A node may be broken or hostile: unreadable data is unknown, and never fine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stampworks.configuration.run import CheckModeResult, TaskFailure
from stampworks.text.names import fold

WORDS_MAX = 240
"""Maximum characters of a finding, whose text may come from a node."""
LINES_MAX = 40
"""Lines of one layer."""
CLOCK_S = 30
"""Seconds between a node's clock and the controller's. Slurm accepts no message that is a minute old."""

Found = tuple[str, str]
"""(node, difference)"""

SERVICES = {
    "packages": "packages",
    "database": "database",
    "slurm_accounting": "slurmdbd",
    "slurm_controller": "slurmctld",
    "slurm_login": "sackd",
    "slurm_worker": "slurmd",
    "metrics": "metrics",
}
"""Service that must run on the hosts of a group."""
VERSIONED = {
    "slurm": ("slurm-client",),
    "mariadb": ("mariadb-server", "mariadb1011-server"),
    "torch": ("python3-torch",),
}
"""Packages with the version of a part of the release, by the names that distributions use."""
HOLDERS = {
    "slurm": ("slurm_controller", "slurm_login", "slurm_worker"),
    "mariadb": ("database",),
    "torch": ("workloads",),
}
"""Groups whose hosts have a part that other hosts lack."""


def lines(layer: str, found: Iterable[Found], mask: Callable[[str], str] = str) -> list[str]:
    """Return one line for each difference, with all its nodes: system: gpu-[001-064]: /etc/hosts differs."""
    nodes: dict[str, list[str]] = {}
    for node, what in found:
        # Mask before shortening: a secret that was cut could no longer be found.
        nodes.setdefault(plain(mask(what)), []).append(node)
    said = [f"{layer}: {fold(sorted(set(names)))}: {what}" for what, names in nodes.items()]
    more = len(said) - LINES_MAX
    return said if more <= 0 else [*said[:LINES_MAX], f"{layer}: and {more} more of this kind"]


def plain(text: str) -> str:
    """Return any text in a form that fits into a line."""
    one_line = re.sub(r"\s+", " ", "".join(char if char.isprintable() else " " for char in text)).strip()
    return one_line if len(one_line) <= WORDS_MAX else f"{one_line[:WORDS_MAX]}..."


def of_look(
    inventory: Mapping[str, Any], hosts: Sequence[str], look: CheckModeResult, mask: Callable[[str], str] = str
) -> list[str]:
    """Return all differences of these hosts. Hosts of the inventory that are not in `hosts` are down."""
    there = [host for host in hosts if host not in {failure.host for failure in look.failures if not failure.task}]
    absent = [(host, "unknown: the node is not up") for host in inventory["all"]["hosts"] if host not in hosts]
    seen = list(runtime(inventory, there, look.facts)) if not look.broken else []
    system = [one for one in look.drift if one not in seen] + [_unseen(failure) for failure in look.failures]
    if look.broken:
        system += [(host, f"unknown: the check was interrupted: {look.broken}") for host in hosts]
    return lines("system", system, mask) + lines("runtime", absent + seen, mask)


def _unseen(failure: TaskFailure) -> Found:
    if not failure.task:
        return failure.host, f"unknown: it cannot be reached: {failure.message}"
    return failure.host, f"unknown from {failure.task} on: {failure.message}"


def runtime(inventory: Mapping[str, Any], hosts: Sequence[str], facts: Mapping[str, Any]) -> Iterator[Found]:
    """Yield each report of these hosts that differs from the inventory."""
    variables, groups = inventory["all"]["vars"], inventory["all"]["children"]
    for host in hosts:
        if not isinstance(said := facts.get(host), Mapping):
            yield host, "unknown: it reported nothing"
            continue
        roles = {role for role, group in groups.items() if host in group["hosts"]}
        expected = {**variables, **inventory["all"]["hosts"][host]}
        for check in (services, mounts, rails, accelerators, versions):
            try:
                yield from ((host, what) for what in check(expected, roles, said))
            except (KeyError, TypeError, ValueError, AttributeError):
                yield host, f"unknown: its report of {check.__name__} cannot be read"
    for controller in groups.get("slurm_controller", {}).get("hosts", ()):
        if controller in hosts and isinstance(facts.get(controller), Mapping):
            yield from scheduled(inventory, controller, facts[controller].get("slurm"))
            yield from clocks(controller, {host: facts[host] for host in hosts if isinstance(facts.get(host), Mapping)})


Expected = Mapping[str, Any]


def services(_: Expected, roles: set[str], said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the services of a host's roles that do not run."""
    running = _mapping(said["services"])
    for role, service in SERVICES.items():
        if role in roles and _kind(bool, running.get(service, False)) is False:
            yield f"{service} does not run"


def mounts(expected: Expected, roles: set[str], said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the declared mounts that a host lacks."""
    mounted = _kind(list, said["mounts"])
    for mount in expected["storage_mounts"] if "storage" in roles else ():
        if mount["path"] not in mounted:
            yield f"{mount['path']} is not mounted"


def rails(expected: Expected, _: set[str], said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rails of a host that are missing or have other settings."""
    found = _mapping(said["interfaces"])
    for rail in expected["node_rails"]:
        name = rail["interface"]
        if name not in found:
            yield f"{name} is missing"
        else:
            yield from _rail_drift(rail, _mapping(found[name]))


def _rail_drift(rail: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    name, addresses = rail["interface"], _kind(list, found["addresses"])
    if rail["address"] and rail["address"] not in addresses:
        yield f"{name} has {' and '.join(map(str, addresses)) or 'no address'}, the plan says {rail['address']}"
    if not _kind(bool, found["carrier"]):
        yield f"{name} is down"
    elif (rate := found["rate_mbps"]) is None:
        yield f"unknown: the rate of {name}"
    elif _kind(int, rate) < rail["rate_mbps"]:
        yield f"{name} runs at {rate} of {rail['rate_mbps']} Mb/s"


def accelerators(expected: Expected, _: set[str], said: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line when fewer accelerators answer than the machine has, or none could be counted."""
    wanted = expected["node_machine"]["accelerators"]
    if wanted and (found := said["accelerators"]) is None:
        yield "unknown: how many accelerators it has"
    elif wanted and len(_kind(list, found)) != wanted:
        yield f"{len(found)} of {wanted} accelerators answer"


def versions(expected: Expected, roles: set[str], said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of the release whose version on the host differs."""
    packages = _mapping(said["packages"])
    system, _, number = _kind(str, said["system"]).partition(" ")
    # a tag has its own form of a version: slurm-24-11-7-1
    built = {name: ".".join(re.findall(r"\d+", _kind(str, tag))) for name, tag in _mapping(said["built"]).items()}
    own = {**built, system: number, "python": said["python"]}
    for part, version in expected["cluster_versions"].items():
        if not roles.intersection(HOLDERS.get(part, roles)):
            continue
        packaged = (packages.get(each, "") for each in VERSIONED.get(part, ()))
        found = _kind(str, own[part] if part in own else next(filter(None, packaged), ""))
        upstream = found.partition(":")[2] or found  # Debian's epoch is not part of the program's version
        if not upstream:
            yield f"{part} is not installed"
        elif not upstream.startswith(version):
            yield f"{part} is {upstream}, and the release has {version}"


def scheduled(inventory: Mapping[str, Any], controller: str, said: Any) -> Iterator[Found]:
    """Yield differences in Slurm's view of the nodes. A node that a user drained is no drift."""
    if not isinstance(said, Mapping):
        yield controller, "unknown: Slurm does not report its nodes"
        return
    for node in inventory["all"]["children"].get("slurm_worker", {}).get("hosts", ()):
        try:
            yield from ((node, what) for what in _node_drift(inventory["all"]["hosts"][node], said.get(node)))
        except (KeyError, TypeError, ValueError, AttributeError):
            yield node, "unknown: Slurm's report of it cannot be read"


def _node_drift(expected: Expected, seen: Any) -> Iterator[str]:
    if seen is None:
        yield "Slurm does not know it"
        return
    states = [_kind(str, state).lower() for state in _kind(list, seen["state"])]
    reason = f": {seen['reason']}" if seen["reason"] else ""
    if {"down", "not_responding", "unknown"}.intersection(states) and "drain" not in states:
        yield f"Slurm says {'+'.join(states)}{reason}"
    machine = expected["node_machine"]
    if (cpus := _kind(int, seen["cpus"])) != machine["cores"]:
        yield f"Slurm counts {cpus} of {machine['cores']} CPUs"
    counted = sum(map(int, re.findall(r"(?:^|,)gpu:(?:\w+:)?(\d+)", _kind(str, seen["gres"]))))
    if counted != machine["accelerators"]:
        yield f"Slurm counts {counted} of {machine['accelerators']} accelerators"


def clocks(controller: str, facts: Mapping[str, Any]) -> Iterator[Found]:
    """Yield hosts whose clock differs from the controller's. This machine's clock, the reference, may be wrong."""
    for host, said in facts.items():
        try:
            off_s = _kind(float, said["clock_ahead_s"]) - _kind(float, facts[controller]["clock_ahead_s"])
        except (KeyError, TypeError):
            yield host, "unknown: its report of its clock cannot be read"
            continue
        if abs(off_s) > CLOCK_S:
            minutes = max(1, round(abs(off_s) / 60))
            way = f"{minutes} minute{'s' if minutes > 1 else ''} {'ahead of' if off_s > 0 else 'behind'} {controller}'s"
            yield host, f"its clock is {way}, and Slurm's daemons reject messages of a clock so far off"


def _mapping(value: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = _kind(dict, value)
    return found


def _kind(kind: type, value: Any) -> Any:
    """Return the value if it has exactly this type. A node may report anything."""
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected")
    return value
