"""`stampworks fabric`: switches and cables for a number of nodes, and a comparison of a cabling with its plan."""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits
from stampworks.cli.machines import machine_named

if TYPE_CHECKING:
    from stampworks import catalog
    from stampworks.planning.fat_tree.tenants import Tenant
    from stampworks.planning.fat_tree.tree import FatTree


DUMP_BYTES_MAX = 256 << 20
"""ibnetdiscover's output of 16,384 GPUs has about 13 MB."""


def add_verbs(verbs: Any) -> None:
    """Add the verb `fabric` and its options."""
    fabric = verbs.add_parser("fabric", help="design the network between nodes", allow_abbrev=False)
    fabric.add_argument("machine", metavar="MACHINE", help="a machine of the catalog")
    fabric.add_argument("nodes", metavar="NODES", type=int, help="number of nodes")
    fabric.add_argument("--unit", metavar="NODES", type=int, help="nodes of a scalable unit, which share leaves")
    fabric.add_argument("--switch", metavar="MODEL", default="", help="switch to build it of")
    fabric.add_argument(
        "--oversubscription",
        metavar="N",
        type=float,
        default=1.0,
        help="ratio of the bandwidth of nodes to the uplinks of their leaf",
    )
    fabric.add_argument(
        "--planes", metavar="N", type=int, help="number of separate fabrics over which each NIC is split"
    )
    fabric.add_argument(
        "--managers", metavar="N", type=int, default=0, help="subnet managers, each with a port of a leaf"
    )
    fabric.add_argument(
        "--tenant",
        metavar="NAME=NODES",
        action="append",
        default=[],
        type=_tenant,
        help="give nodes a partition or VLAN",
    )
    fabric.add_argument("--cables", metavar="FILE", help="write every link with its two ports into a CSV file")
    fabric.add_argument(
        "--against", metavar="DUMP", help="compare a cabling with it: output of ibnetdiscover or lldpctl"
    )
    fabric.add_argument("--names", metavar="FILE", help="CSV file with the owner's names of the plan's devices")
    fabric.add_argument("--json", action="store_true", help="print the counts as JSON")
    fabric.set_defaults(call=show_fabric)


def show_fabric(arguments: argparse.Namespace) -> int:
    """Return the exit code: UNKNOWN if no fat tree is known for the machine."""
    from stampworks.planning.fat_tree.notes import notes
    from stampworks.planning.fat_tree.tenants import neighbours, tenants
    from stampworks.planning.fat_tree.tree import NoFatTreeError, design

    machine = machine_named(arguments.machine)
    try:
        tree = design(
            machine,
            arguments.nodes,
            unit=arguments.unit,
            switch=arguments.switch,
            oversubscription=arguments.oversubscription,
            planes=arguments.planes,
            managers=arguments.managers,
        )
    except NoFatTreeError as error:
        _show(arguments, {**_counts(None), "notes": [str(error)], "machine": machine.name, "nodes": arguments.nodes})
        return exits.UNKNOWN
    if arguments.cables:
        _write_cables(tree, Path(arguments.cables))
    placed = tenants(tree, arguments.tenant)
    told = [*notes(machine, tree), *neighbours(tree, placed)]
    answer = {**_counts(tree), "notes": told, **_details(machine, tree), **_tenants(tree, placed)}
    if not arguments.against:
        _show(arguments, answer)
        return exits.FINE
    cabling = _compared(tree, Path(arguments.against), arguments.names)
    _show(arguments, {**answer, "cabling": cabling})
    unknown = cabling["unseen"] or cabling["rates_unknown"]
    return exits.NO if cabling["findings"] else exits.UNKNOWN if unknown else exits.FINE


def _show(arguments: argparse.Namespace, answer: dict[str, Any]) -> None:
    from stampworks.cli.output import terminal_width
    from stampworks.views.fabric import fabric_text

    print(json.dumps(answer, indent=2) if arguments.json else fabric_text(answer, terminal_width()))


def _counts(tree: FatTree | None) -> dict[str, Any]:
    """Return the counts of the design. They are unknown for a fabric that is no tree."""
    return {
        "switches": {
            "leaf": tree and tree.leaves,
            "spine": tree and tree.spines,
            "core": tree and tree.cores,
        },
        "cables": {
            "node_leaf": tree and tree.node_leaf_cables,
            "leaf_spine": tree and tree.leaf_spine_cables,
            "spine_core": tree and tree.spine_core_cables,
        },
        "bisection_gbps": tree and _rounded(tree.bisection_gbps),
        "oversubscription": tree and _rounded(tree.oversubscription),
    }


def _details(machine: catalog.Machine, tree: FatTree) -> dict[str, Any]:
    return {
        "machine": machine.name,
        "nodes": tree.nodes,
        "accelerators": tree.nodes * machine.accelerators,
        "nics": machine.nics,
        "switch": tree.switch.name,
        "generation": tree.switch.generation,
        "ports": tree.radix,
        "link_gbps": tree.link_gbps,
        "tiers": tree.tiers,
        "unit": tree.unit,
        "units": tree.units,
        "planes": tree.planes,
        "managers": tree.managers,
        "uplinks": {"leaf": tree.uplinks, "spine": tree.spine_uplinks},
        "links": {"leaf_spine": tree.leaf_spine_links, "spine_core": tree.spine_core_links},
        "ports_left": tree.ports_left,
    }


def _tenants(tree: FatTree, placed: Sequence[Tenant]) -> dict[str, Any]:
    if not placed:
        return {}
    number = "pkey" if tree.switch.kind == "infiniband" else "vlan"
    return {"tenants": [{"name": each.name, number: each.key, "nodes": [*each.node_names]} for each in placed]}


def _tenant(text: str) -> tuple[str, int]:
    name, _, nodes = text.rpartition("=")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", name) or not re.fullmatch(r"[0-9]{1,9}", nodes):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=NODES, as in red=16")
    return name, int(nodes)


def _rounded(number: float) -> float:
    return int(number) if number == int(number) else round(number, 4)


def _write_cables(tree: FatTree, file: Path) -> None:
    try:
        opened = file.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise exits.CliError(f"{file}: {error.strerror}", "name a file that can be written") from None
    with opened as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(("boundary", "lower_device", "lower_port", "upper_device", "upper_port", "gbps"))
        for each in tree.cables():
            table.writerow((each.boundary, *_cells(each.lower), *_cells(each.upper), each.rate_gbps))


def _compared(tree: FatTree, dump: Path, names_file: str | None) -> dict[str, Any]:
    """InfiniBand has a single dump of the subnet, Ethernet a dump of each device in a file with its name."""
    from stampworks.planning.fat_tree.cabling import compare
    from stampworks.planning.fat_tree.dumps import read_ibnetdiscover, read_lldp, read_names

    names = read_names(_read(Path(names_file)) if names_file else "", names_file or "")
    if tree.switch.kind == "infiniband":
        seen = read_ibnetdiscover(_read(dump), str(dump), names)
    else:
        files = sorted(dump.glob("*.json")) if dump.is_dir() else [dump]
        if not files:
            raise exits.CliError(f"{dump}: has no DEVICE.json", "put what `lldpctl -f json` printed on DEVICE there")
        seen = read_lldp({file.stem: _read(file) for file in files}, names)
    compared = compare(tree, seen)
    return {
        "right": compared.right,
        "unseen": compared.unseen,
        "rates_unknown": compared.rates_unknown,
        "others": compared.others,
        "findings": [
            {
                "kind": each.kind,
                "text": each.text,
                "planned": [[_cells(cable.lower), _cells(cable.upper)] for cable in each.planned],
                "found": [[_cells(link.one), _cells(link.other)] for link in each.found],
            }
            for each in compared.findings
        ],
    }


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(DUMP_BYTES_MAX + 1)
    except OSError as error:
        raise exits.CliError(f"{file}: {error.strerror}", "name a file that can be read") from None
    if len(data) > DUMP_BYTES_MAX:
        raise exits.CliError(f"{file}: has more than {DUMP_BYTES_MAX >> 20} MiB", "no dump of a fabric is as long")
    return data.decode("utf-8", "replace")


def _cells(end: Any) -> tuple[str, str]:
    return end.device, end.port
