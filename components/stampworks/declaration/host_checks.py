"""Checks of the machines that are declared by their addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stampworks import catalog
from stampworks.declaration.checks import FieldFinding
from stampworks.declaration.nodes import Path
from stampworks.declaration.wording import did_you_mean, shown

Entry = Mapping[str, Any]
_OWN_GROUPS = ("head", "login")


def check_hosts(data: Entry) -> Iterator[FieldFinding]:
    """Yield all problems of `hosts`, and between it and the pools."""
    hosts, cloud = data.get("hosts", {}), data.get("cloud")
    machines: Sequence[Entry] = hosts.get("machines", ())
    if cloud is not None and cloud not in catalog.MACHINES_EXIST:
        for key in ("machines", "list_command", "provider"):
            if hosts.get(key):
                what = f"the cluster is on {cloud}, which makes its machines itself"
                yield FieldFinding(("hosts", key), what, "write cloud: hosts, or take it out")
        return
    via = hosts.get("via", {})
    if via.get("address") and via.get("host_key") == "":
        what = f"the host key of {via['address']} is not declared, and nobody else could tell it from an impostor"
        hint = f"ask its administrator for the line of its /etc/ssh/ssh_host_ed25519_key.pub; {_SCAN} {via['address']}"
        yield FieldFinding(("hosts", "via", "host_key"), what, f"{hint} prints what it shows")
    groups = {*_OWN_GROUPS, *(pool["name"] for pool in data.get("pools", ()) if "name" in pool)}
    for index, machine in enumerate(machines):
        group = machine.get("group")
        if group is not None and group not in groups:
            hint = did_you_mean(group, sorted(groups))
            yield FieldFinding(("hosts", "machines", index, "group"), f"no pool is called {shown(group)}", hint)
    group = hosts.get("list_group")
    if group and group not in groups:
        hint = did_you_mean(group, sorted(groups))
        yield FieldFinding(("hosts", "list_group"), f"no pool is called {shown(group)}", hint)
    yield from _twice(machines, "address", _reached, "is reached at")
    yield from _twice(machines, "inside", lambda each: each.get("inside") or None, "has the inside address")
    yield from _twice(machines, "host_key", _key, "has the host key")


_SCAN = "ssh-keyscan"


def _reached(machine: Entry) -> str | None:
    if not machine.get("address") or "port" not in machine:
        return None
    return machine["address"] if machine["port"] == 22 else f"{machine['address']}:{machine['port']}"


def _key(machine: Entry) -> str | None:
    return " ".join(machine["host_key"].split()[:2]) if machine.get("host_key") else None


def _twice(
    machines: Sequence[Entry], key: str, value_of: Callable[[Entry], str | None], words: str
) -> Iterator[FieldFinding]:
    first: dict[str, int] = {}
    for index, machine in enumerate(machines):
        value = value_of(machine)
        if value is None:
            continue
        if (earlier := first.setdefault(value, index)) != index:
            path: Path = ("hosts", "machines", index, key)
            what = f"machine {earlier} {words} {shown(value)}, too"
            yield FieldFinding(path, what, "a machine is in the list once: correct one of the two")
