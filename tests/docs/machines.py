"""Writes docs/reference/machines.md from the catalog: python -m tests.docs.machines"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from stampworks import catalog

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "machines.md"
HEADER = """\
# Machines

Every machine of the catalog, with its *unknown* facts, which are never guessed and never zero. `python -m
tests.docs.machines` writes this page from `components/stampworks/catalog/machines/`. To add a row:
[Adding a machine](../contributing/adding-a-machine.md).

GB/s are bytes, Gb/s are bits, GiB are 2^30 bytes and GB 10^9; rates are those of one direction. *NICs* are those of the
fabric, followed by the number of accelerators for each NIC, or of NICs for each accelerator, and the addresses of the
cloud's networks that a node takes for its rails and for everything else. A *domain* has the accelerators that NVLink,
or its equivalent, joins.
"""
APART = {"name", "cloud", "aliases", "simulated", "source", "read"}
"""Fields that are no facts and cannot be unknown."""
OF_ACCELERATORS = {"host_link", "nvlink_nodes"}
OF_NICS = {"nic_rate_gbps", "nics_rate_gbps", "fabric_reduces"}


def page() -> str:
    """The whole page."""
    sections = [HEADER, coverage(), *map(machines_of, catalog.CLOUDS), accelerators(), nics(), sources()]
    return "\n".join(sections)


def coverage() -> str:
    rows = []
    for cloud in catalog.CLOUDS:
        machines = [machine for machine in catalog.machines().values() if machine.cloud == cloud]
        found = [fact is not catalog.UNKNOWN for machine in machines for fact in facts(machine)]
        rows.append((cloud, str(len(machines)), f"{sum(found)} of {len(found)}", f"{sum(found) / len(found):.0%}"))
    return _section("How much is known", ("cloud", "machines", "facts", "share"), rows)


def facts(machine: catalog.Machine) -> Iterator[object]:
    """Yield the facts of a machine, without accelerator or NIC facts if it has none."""
    senseless = (set() if machine.accelerators else OF_ACCELERATORS) | (OF_NICS if machine.nics == 0 else set())
    for field in dataclasses.fields(machine):
        if field.name not in APART | senseless:
            fact = getattr(machine, field.name)
            yield from (fact.count, fact.gb) if isinstance(fact, catalog.Disks) else (fact,)


def machines_of(cloud: str) -> str:
    header = (
        *("machine", "accelerators", "domain", "sockets", "cores", "memory, GiB", "local NVMe", "NICs", "addresses"),
        *("limit", "price by", "power, kW"),
    )
    rows = [_machine(machine) for machine in catalog.machines().values() if machine.cloud == cloud]
    return _section(cloud, header, rows)


def _machine(machine: catalog.Machine) -> tuple[str, ...]:
    names = [f"`{name}`" for name in (machine.name, *machine.aliases)]
    memory_gib = machine.memory_mib / 1024 if isinstance(machine.memory_mib, int) else machine.memory_mib
    return (
        f"{names[0]} ({', '.join(names[1:])})" if names[1:] else names[0],
        f"{machine.accelerators} x {machine.accelerator}" if machine.accelerator else "none",
        _domain(machine),
        str(machine.sockets),
        str(machine.cores),
        f"{memory_gib:.4g}" if isinstance(memory_gib, float) else str(memory_gib),
        _disks(machine.local_nvme),
        _nics(machine),
        _addresses(machine),
        _limit(machine),
        str(machine.billing_unit),
        str(machine.power_kw),
    )


def _domain(machine: catalog.Machine) -> str:
    if not machine.accelerator or catalog.accelerators()[machine.accelerator].links == "none":
        return "none"
    if isinstance(machine.nvlink_nodes, catalog.Unknown):
        return "unknown"
    return str(machine.accelerators * machine.nvlink_nodes)


def _disks(disks: catalog.Disks) -> str:
    return "none" if disks.count == 0 else f"{disks.count} x {disks.gb} GB".replace("unknown x unknown GB", "unknown")


def _nics(machine: catalog.Machine) -> str:
    if isinstance(machine.nics, catalog.Unknown):
        return "unknown"
    if not machine.nics:
        return "none"
    shared = machine.accelerators > machine.nics
    ratio = machine.accelerators // machine.nics if shared else machine.nics // max(machine.accelerators, 1)
    each = f"{ratio} accelerators a NIC" if shared else f"{ratio} an accelerator"
    return f"{machine.nics} x {machine.nic_rate_gbps} Gb/s {machine.nic}, {each}"


def _addresses(machine: catalog.Machine) -> str:
    if isinstance(machine.nics, catalog.Unknown):
        return f"unknown + {machine.other_nics}"
    nic = catalog.nic_of(machine)
    return f"{machine.nics * nic.addresses if nic else 0} + {machine.other_nics}"


def _limit(machine: catalog.Machine) -> str:
    family = f" of {machine.quota_family}" if machine.quota_family is not catalog.UNKNOWN else ", name unknown"
    if machine.quota_units is catalog.UNKNOWN:
        return "unknown"
    return f"{machine.quota_units}{family}" if machine.quota_family != "" else "none"


def accelerators() -> str:
    header = (
        *("accelerator", "memory, GiB", "memory, GB/s", "bf16, TFLOP/s", "fp8, TFLOP/s", "bf16 measured"),
        *("links", "GB/s", "switch adds up", "MIG", "source", "read"),
    )
    rows = [
        tuple(map(_shown, (getattr(row, field.name) for field in dataclasses.fields(row))))
        for row in catalog.accelerators().values()
    ]
    return _section("Accelerators", header, rows)


def nics() -> str:
    header = ("kind", "protocol", "RDMA only", "addresses", "subnet of its own", "source", "read")
    rows = [
        tuple(map(_shown, (getattr(row, field.name) for field in dataclasses.fields(row))))
        for row in catalog.nics().values()
    ]
    return _section("NICs", header, rows)


def sources() -> str:
    rows = [(f"`{row.name}`", row.source, row.read) for row in catalog.machines().values()]
    return _section("Sources", ("machine", "source", "read"), rows)


def _shown(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, tuple):
        return ", ".join(map(str, fact))
    return f"{fact:g}" if isinstance(fact, float) else str(fact)


def _section(title: str, header: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    header = tuple(header)
    lines = [f"## {title}", "", _row(header), _row("---" for _ in header), *map(_row, rows), ""]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "\\<") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page())
