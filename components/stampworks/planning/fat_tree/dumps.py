"""Read dumps of a cabling: `ibnetdiscover`, and `lldpctl -f json` (or json0) of each device.

A dump is untrusted input: every error in it has a place, and both ends of a link must agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stampworks.declaration.wording import shown
from stampworks.planning.fat_tree.cabling import DumpError, FoundCable, Seen
from stampworks.planning.fat_tree.tree import End

LINE_LENGTH_MAX: Final = 4096
NAME_LENGTH_MAX: Final = 256

LANE_GBPS: Final[Mapping[str, float]] = {
    "SDR": 2.5,
    "DDR": 5,
    "QDR": 10,
    "FDR10": 10,
    "FDR": 14,
    "EDR": 25,
    "HDR": 50,
    "NDR": 100,
    "XDR": 200,
}
"""Rate of one lane in Gb/s, by its market name."""

# rdma-core, infiniband-diags/ibnetdiscover.c: out_switch_detail, out_ca_detail, out_switch_port, out_ca_port
_HEADER = re.compile(r'(Switch|Ca|Rt)\s+\d+ "([SHR]-[0-9a-f]{16})"\s+# "(.*)"')
_PORT = re.compile(r'\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-f]+\))?\s+"([SHR?]-[0-9a-f]{16})"\[(\d+)\]')
_RATE = re.compile(r" (\d+)x([A-Z]+\d*)(?: s=\d+ w=\d+ v=\d+)?(?: slot \d+| \(scp\))?$")
_OTHER = re.compile(
    r"#|vendid=|devid=|sysimgguid=|(switch|ca|rt)guid=|Chassis \d+|Non-Chassis Nodes|Hostname: |DR path"
)


@dataclass(frozen=True)
class _Line:
    """The line of a port: its peer, and its rate."""

    peer: tuple[str, int]
    rate_gbps: float | None
    number: int


class Names:
    """The plan's names of devices and NICs that their owner named differently."""

    def __init__(self, planned: Mapping[str, str]) -> None:
        self._planned = planned

    def end(self, device: str, port: str) -> End:
        """Return an end by its planned name; names that the plan does not know stay as they are."""
        whole = self._planned.get(f"{device} {port}")
        if whole and " " in whole:
            return End(*whole.rsplit(" ", 1))
        return End(self._planned.get(device, device), self._planned.get(port, port))


def read_names(text: str, place: str) -> Names:
    """Parse lines of `planned name,real name`: devices, and NICs (`mlx5_1,mlx5_3` on all nodes, `NODE NIC` on one)."""
    planned: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 2 or not all(cells) or max(map(len, cells)) > NAME_LENGTH_MAX:
            raise DumpError(f"{place}:{number}: {shown(line)} is no pair of names", "write `planned name,real name`")
        if planned.setdefault(cells[1], cells[0]) != cells[0]:
            raise DumpError(f"{place}:{number}: {shown(cells[1])} has a name already", "keep one of the lines")
    return Names(planned)


def read_ibnetdiscover(text: str, place: str, names: Names) -> Seen:
    """Return every link of the subnet; the dump lists it at both ends."""
    descriptions, lines = _scan(text, place)
    _check_peers(descriptions, lines, place)
    ends = {port: _end(names, descriptions[port[0]], port[1]) for port in lines}
    links: dict[frozenset[tuple[str, int]], FoundCable] = {}
    for port, line in lines.items():
        back = lines.get(line.peer)
        if back is None or back.peer != port:
            says = f"line {back.number} says that it leads elsewhere" if back else "that port has no line"
            raise DumpError(f"{place}:{line.number}: leads to a port that does not lead back: {says}", _AGAIN)
        rates = [each.rate_gbps for each in (line, back)]
        rate = None if None in rates else min(each for each in rates if each is not None)
        links[frozenset((port, line.peer))] = FoundCable(ends[port], ends[line.peer], rate)
    return Seen(tuple(links.values()), None)


_AGAIN = "the fabric changed while it was looked at, or the dump was cut short: take it again"


def _scan(text: str, place: str) -> tuple[dict[str, tuple[str, str]], dict[tuple[str, int], _Line]]:
    """Return the kind and description of each device by GUID, and the line of each port."""
    descriptions: dict[str, tuple[str, str]] = {}
    lines: dict[tuple[str, int], _Line] = {}
    device = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        where = f"{place}:{number}"
        if len(line) > LINE_LENGTH_MAX:
            raise DumpError(f"{where}: a line of {len(line)} characters", "ibnetdiscover prints no such lines")
        if header := _HEADER.match(line):
            kind, device, description = header.groups()
            if device in descriptions:
                raise DumpError(f"{where}: {device} is described a second time", "give one dump of one subnet")
            descriptions[device] = kind, description
        elif found := _PORT.match(line):
            port = device, int(found[1][:9])
            if not device or port in lines:
                what = "is listed a second time" if device else "belongs to no device"
                raise DumpError(f"{where}: port {found[1][:9]} {what}", "give one dump as ibnetdiscover printed it")
            lines[port] = _Line((found[2], int(found[3][:9])), _rate(line), number)
        elif line and not _OTHER.match(line):
            raise DumpError(f"{where}: {shown(line)} is nothing that ibnetdiscover prints", "give its output as it is")
    if not descriptions:
        raise DumpError(f"{place}: describes no switch and no NIC", "give what ibnetdiscover prints without options")
    return descriptions, lines


def _rate(line: str) -> float | None:
    found = _RATE.search(line)
    return int(found[1][:3]) * LANE_GBPS[found[2]] if found and found[2] in LANE_GBPS else None


def _check_peers(
    descriptions: Mapping[str, tuple[str, str]], lines: Mapping[tuple[str, int], _Line], place: str
) -> None:
    for line in lines.values():
        if line.peer[0] not in descriptions:
            raise DumpError(f"{place}:{line.number}: leads to {line.peer[0]}, which the dump does not describe", _AGAIN)
    seen: dict[tuple[str, str], str] = {}
    for guid, described in descriptions.items():
        if (twin := seen.setdefault(described, guid)) != guid:
            raise DumpError(
                f"{place}: {twin} and {guid} are both called {shown(described[1])}",
                "give ibnetdiscover a --node-name-map that tells them apart",
            )


def _end(names: Names, described: tuple[str, str], port: int) -> End:
    """Return the end of a cable. A NIC's description has its host and its own name; further ports of a NIC get a
    number."""
    kind, description = described
    if kind == "Switch":
        return names.end(description, str(port))
    host, _, nic = description.rpartition(" ")
    return names.end(host, nic if port == 1 else f"{nic}/{port}")


def read_lldp(texts: Mapping[str, str], names: Names) -> Seen:
    """Return the links that devices report about their neighbours; a link reported by both ends is returned once."""
    peers: dict[End, tuple[End, str]] = {}
    for device, text in texts.items():
        for port, neighbour in _neighbours(text, device):
            end = names.end(device, port)
            if end in peers and peers[end][0] != names.end(*neighbour):
                raise DumpError(f"{device}: {shown(port)} has two neighbours", "look at that port: a hub, or a bridge?")
            peers[end] = names.end(*neighbour), device
    links: dict[frozenset[End], FoundCable] = {}
    for end, (peer, device) in peers.items():
        back = peers.get(peer)
        if back is not None and back[0] != end:
            what = f"{device}: {end} leads to {peer}, and {back[1]} says that {peer} leads to {back[0]}"
            raise DumpError(what, "the cabling changed between the dumps: take them again")
        links.setdefault(frozenset((end, peer)), FoundCable(end, peer, None))
    looked = frozenset(names.end(device, "").device for device in texts)
    return Seen(tuple(links.values()), looked)


def _neighbours(text: str, device: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (own port, (neighbour, its port)) from the output of `lldpctl -f json` or `-f json0`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DumpError(f"{device}: is no JSON: {str(error)[:NAME_LENGTH_MAX]}", _LLDP) from None
    if not isinstance(data, dict) or "lldp" not in data:
        raise DumpError(f"{device}: has no `lldp`", _LLDP)
    for port, facts in _named(_first(data["lldp"]).get("interface", []), device):
        yield port, (_chassis_name(_first(facts.get("chassis", {}))), _port_name(_first(facts.get("port", {}))))


_LLDP = "give what `lldpctl -f json` printed on that device"


def _named(data: Any, device: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of a list by name. json has an object for one entry and a list for several; json0 always has
    lists."""
    for entry in data if isinstance(data, list) else [data]:
        if not isinstance(entry, dict):
            raise DumpError(f"{device}: {shown(str(entry))} stands where an object was expected", _LLDP)
        name = entry.get("name")
        if name is not None and not isinstance(name, dict):
            yield _text(name), entry
            continue
        for name, facts in entry.items():
            if isinstance(facts, dict):
                yield name[:NAME_LENGTH_MAX], facts


def _first(data: Any) -> dict[str, Any]:
    entry = data[0] if isinstance(data, list) and data else data
    return entry if isinstance(entry, dict) else {}


def _text(data: Any) -> str:
    """Return a value as text; json0 wraps values: [{"value": "swp1"}]."""
    value = _first(data).get("value", "") if isinstance(data, list) else data
    return str(value)[:NAME_LENGTH_MAX]


def _chassis_name(chassis: Mapping[str, Any]) -> str:
    """Return the neighbour's name, which is a key in json; a neighbour without a name is known by its id."""
    if "id" in chassis:
        return _text(chassis.get("name", "")) or _text(_first(chassis["id"]).get("value", ""))
    return next(iter(chassis), "")[:NAME_LENGTH_MAX]


def _port_name(port: Mapping[str, Any]) -> str:
    """Return the neighbour's name of its port. Hosts report the port's address as id, and its name as description."""
    identity = _first(port.get("id", {}))
    described = _text(port.get("descr", ""))
    return described if identity.get("type") == "mac" and described else _text(identity.get("value", described))
