"""A fat tree as text: its tiers one above the other, with the cables between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stampworks.text.amounts import counted
from stampworks.text.printable import printable
from stampworks.views.table import INDENT, paragraph

KINDS = ("exchanged", "wrong", "swapped", "missing", "surplus", "slow")
SHOWN_MAX = 20
PLURALS = {"leaf": "leaves", "spine": "spines", "core": "cores"}


def fabric_text(answer: Mapping[str, Any], width: int) -> str:
    """Return the text for the answer of `stampworks fabric --json`."""
    known = answer["switches"]["leaf"] is not None
    lines = [*(_known(answer) if known else _unknown(answer))]
    lines += [line for each in answer["notes"] for line in _note(each, width)]
    return "\n".join([*lines, *(_cabling(answer["cabling"], width) if "cabling" in answer else ())])


def _known(answer: Mapping[str, Any]) -> Iterator[str]:
    accelerators = f" ({answer['accelerators']:,} accelerators)" if answer["accelerators"] else ""
    tiers = "one switch" if answer["tiers"] == 1 else f"{answer['tiers']} tiers"
    yield (
        f"{answer['nodes']:,} x {printable(answer['machine'])}{accelerators}: {tiers} of {answer['switch']}, "
        f"{answer['ports']} ports of {answer['link_gbps']} Gb/s ({answer['generation']})"
    )
    yield ""
    yield from _drawing(answer)
    yield ""
    ratio = f"{answer['oversubscription']:g}:1"
    yield f"{INDENT}bisection {answer['bisection_gbps'] / 1000:,.1f} Tb/s; leaves {ratio}"
    left = ", ".join(
        f"{count:,} of {PLURALS[tier]}" for tier, count in answer["ports_left"].items() if answer["switches"][tier]
    )
    yield f"{INDENT}ports left: {left}"
    yield from _tenants(answer.get("tenants", ()))
    if answer["notes"]:
        yield ""


def _tenants(tenants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in tenants:
        number = f"P_Key {each['pkey']:#06x}" if "pkey" in each else f"VLAN {each['vlan']}"
        yield f"{INDENT}tenant {printable(each['name'])}: {number}, {' to '.join(each['nodes'])}"


def _drawing(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the drawing from the top: a line for a tier, a line for the cables below it."""
    rows = [*_rows(answer)]
    digits = max(len(f"{count:,}") for _, count, _ in rows)
    for tier, count, what in rows:
        yield f"{INDENT}{tier:>5}  {count:>{digits},}{' cables: ' if tier == '|' else '  '}{what}".rstrip()


def _rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield (tier, count, description), with the cables between two tiers."""
    switches, cables, uplinks, links = answer["switches"], answer["cables"], answer["uplinks"], answer["links"]
    if switches["core"]:
        yield "core", switches["core"], ""
        yield "|", cables["spine_core"], f"{uplinks['spine']} links of each spine, {links['spine_core']} to a core"
    if switches["spine"]:
        yield "spine", switches["spine"], ""
        yield "|", cables["leaf_spine"], f"{uplinks['leaf']} links of each leaf, {links['leaf_spine']} to a spine"
    planes = f" x {answer['planes']} planes" if answer["planes"] > 1 else ""
    units = f"{counted(answer['units'], 'unit')} of {counted(answer['unit'], 'node')}"
    yield "leaf", switches["leaf"], f"{units} x {counted(answer['nics'], 'rail')}{planes}"
    managers = f" and {counted(answer['managers'], 'subnet manager')}" if answer["managers"] else ""
    yield "|", cables["node_leaf"], f"one of each NIC{managers}"
    yield "node", answer["nodes"], f"{counted(answer['nics'], 'NIC')} of {answer['link_gbps'] * answer['planes']} Gb/s"


def _unknown(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"{answer['nodes']:,} x {printable(answer['machine'])}: cannot tell which switches they take"


def _note(text: str, width: int) -> list[str]:
    first, *more = paragraph(text, width, INDENT * 2)
    return [f"{INDENT}- {first.lstrip()}", *more]


def _cabling(cabling: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield the faults, a line each, up to a maximum for each kind."""
    yield ""
    findings = cabling["findings"]
    planned = cabling["right"] + cabling["unseen"] + sum(len(each["planned"]) for each in findings)
    yield f"cabling: {cabling['right']:,} of {planned:,} links are where the plan has them"
    for kind in KINDS:
        of_kind = [each["text"] for each in findings if each["kind"] == kind]
        if of_kind:
            yield f"{INDENT}{kind} ({len(of_kind):,})"
            yield from (line for text in of_kind[:SHOWN_MAX] for line in _note(text, width))
            if len(of_kind) > SHOWN_MAX:
                yield f"{INDENT}  and {len(of_kind) - SHOWN_MAX:,} more: --json has all"
    for count, what in (
        (cabling["unseen"], "are between devices that the dump does not have: nothing is known of them"),
        (cabling["rates_unknown"], "are there, and the dump does not say how fast they are"),
        (cabling["others"], "are of other devices or networks, and left out"),
    ):
        if count:
            yield from paragraph(f"{count:,} links {what}", width)
