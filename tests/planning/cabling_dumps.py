"""Dumps of a cabling in the formats of common tools, written from a list of links, with optional mistakes."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stampworks.planning.fat_tree.cabling import FoundCable
from stampworks.planning.fat_tree.tree import Cable, End, FatTree

LANES = {2.5: "SDR", 25: "EDR", 50: "HDR", 100: "NDR", 200: "XDR"}


def links_of(tree: FatTree) -> list[FoundCable]:
    return [FoundCable(cable.lower, cable.upper, cable.rate_gbps) for cable in tree.cables()]


def ibnetdiscover(links: Sequence[FoundCable], ports: int) -> str:
    """Return output of infiniband-diags 44: it lists each device with its ports, so that every link appears twice."""
    peers: dict[str, list[tuple[End, End, float]]] = defaultdict(list)
    for link in links:
        for end, peer in ((link.one, link.other), (link.other, link.one)):
            peers[_description(end)].append((end, peer, link.rate_gbps or 0))
    guids = {description: f"{0xB83FD20300000000 + number:016x}" for number, description in enumerate(peers)}
    lines = ["#", "# Topology file: generated on Sun Nov 22 06:00:00 2026", "#"]
    lines += [f"# Initiated from node {guids[next(iter(peers))]} port {guids[next(iter(peers))]}"]
    for description, of_device in peers.items():
        guid = guids[description]
        lines += ["", "vendid=0x2c9", "devid=0xd2f2", f"sysimgguid=0x{guid}"]
        if _is_nic(of_device[0][0]):
            lines += [f"caguid=0x{guid}", f'Ca\t1 "H-{guid}"\t\t# "{description}"']
        else:
            lines += [f"switchguid=0x{guid}({guid})"]
            lines += [f'Switch\t{ports} "S-{guid}"\t\t# "{description}" enhanced port 0 lid 7 lmc 0']
        lines += [_port_line(end, peer, rate, guids) for end, peer, rate in of_device]
    return "\n".join([*lines, ""])


def _port_line(end: End, peer: End, rate: float, guids: dict[str, str]) -> str:
    guid, there = guids[_description(end)], guids[_description(peer)]
    lanes = next(f"{int(rate / lane)}x{name}" for lane, name in LANES.items() if rate / lane in (1, 2, 4))
    if _is_nic(end):
        return f'[1]({guid}) \t"S-{there}"[{peer.port}]\t\t# lid 9 lmc 0 "{_description(peer)}" lid 7 {lanes}'
    if _is_nic(peer):
        return f'[{end.port}]\t"H-{there}"[1]({there}) \t\t# "{_description(peer)}" lid 9 {lanes}'
    return f'[{end.port}]\t"S-{there}"[{peer.port}]\t\t# "{_description(peer)}" lid 7 {lanes}'


def _is_nic(end: End) -> bool:
    return end.port.startswith("mlx5")


def _description(end: End) -> str:
    return str(end) if _is_nic(end) else end.device


def lldp(links: Sequence[FoundCable], devices: Callable[[str], bool], form: str) -> dict[str, str]:
    """Return output of lldpd 1.0.16 by device, in the forms json and json0. Hosts report a port's address as its
    name."""
    seen: dict[str, list[tuple[str, End]]] = defaultdict(list)
    for link in links:
        for end, peer in ((link.one, link.other), (link.other, link.one)):
            if devices(end.device):
                seen[end.device].append((end.port, peer))
    write = {"json": _json, "json0": _json0}[form]
    return {device: json.dumps({"lldp": write(of_device)}) for device, of_device in seen.items()}


def _identity(peer: End) -> dict[str, str]:
    if peer.port.startswith("swp"):
        return {"type": "ifname", "value": peer.port}
    return {"type": "mac", "value": "02:00:00:00:00:01"}


def _json(neighbours: Sequence[tuple[str, End]]) -> object:
    entries = [
        {
            port: {
                "via": "LLDP",
                "chassis": {peer.device: {"id": {"type": "mac", "value": "02:00:00:00:00:02"}, "descr": "Linux"}},
                "port": {"id": _identity(peer), "descr": peer.port, "ttl": "120"},
            }
        }
        for port, peer in neighbours
    ]
    return {"interface": entries if len(entries) > 1 else entries[0]}


def _json0(neighbours: Sequence[tuple[str, End]]) -> object:
    entries = [
        {
            "name": port,
            "via": "LLDP",
            "chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:00:02"}], "name": [{"value": peer.device}]}],
            "port": [{"id": [_identity(peer)], "descr": [{"value": peer.port}], "ttl": [{"value": "120"}]}],
        }
        for port, peer in neighbours
    ]
    return [{"interface": entries}]


@dataclass
class Mistakes:
    """A cabling with mistakes, and the expected findings."""

    tree: FatTree
    chance: random.Random
    links: dict[Cable, FoundCable | None] = field(default_factory=dict)
    extra: list[FoundCable] = field(default_factory=list)
    expected: list[tuple[str, frozenset[Cable]]] = field(default_factory=list)
    slow: set[Cable] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.links = {each: FoundCable(each.lower, each.upper, each.rate_gbps) for each in self.tree.cables()}
        ends = {end for each in self.links for end in (each.lower, each.upper)}
        split = self.tree.split
        switches = sorted({each.upper.device for each in self.links})
        names = [str(port + 1) for port in range(self.tree.radix)]
        if self.tree.switch.kind == "ethernet":
            names = [
                f"swp{port // split + 1}" + (f"s{port % split}" if split > 1 else "") for port in range(self.tree.radix)
            ]
        self.free = [end for device in switches for name in names if (end := End(device, name)) not in ends]
        self.untouched = sorted(self.links, key=str)
        self.chance.shuffle(self.free)
        self.chance.shuffle(self.untouched)

    def all_links(self) -> list[FoundCable]:
        return [*(link for link in self.links.values() if link), *self.extra]

    def _take(self, fits: Callable[[Cable], bool] = lambda cable: True) -> Cable:
        chosen = next(each for each in self.untouched if fits(each))
        self.untouched.remove(chosen)
        return chosen

    def _exchange(self, one: Cable, other: Cable) -> None:
        self.links[one] = FoundCable(one.lower, other.upper, one.rate_gbps)
        self.links[other] = FoundCable(other.lower, one.upper, other.rate_gbps)
        self.expected.append(("swapped", frozenset((one, other))))

    def swap(self) -> None:
        one = self._take()
        self._exchange(one, self._take(lambda cable: cable.boundary == one.boundary))

    def wrong_rail(self) -> None:
        nics = Counter(each.lower.device for each in self.untouched if each.boundary == "node-leaf")
        one = self._take(lambda cable: nics[cable.lower.device] > 1)
        self._exchange(one, self._take(lambda cable: cable.lower.device == one.lower.device))

    def rotate(self) -> None:
        chosen = [self._take(lambda cable: cable.boundary == "leaf-spine") for _ in range(3)]
        for one, other in zip(chosen, [*chosen[1:], chosen[0]], strict=True):
            self.links[one] = FoundCable(one.lower, other.upper, one.rate_gbps)
        self.expected.append(("wrong", frozenset(chosen)))

    def remove(self) -> None:
        one = self._take()
        self.links[one] = None
        self.expected.append(("missing", frozenset((one,))))

    def move(self) -> None:
        one = self._take()
        self.links[one] = FoundCable(one.lower, self.free.pop(), one.rate_gbps)
        self.expected.append(("wrong", frozenset((one,))))

    def take_a_place(self) -> None:
        """Plug a cable into the port of another one, which then has no port."""
        one = self._take()
        other = self._take(lambda cable: cable.boundary == one.boundary)
        self.links[one], self.links[other] = FoundCable(one.lower, other.upper, one.rate_gbps), None
        self.expected.append(("wrong", frozenset((one, other))))

    def add(self) -> None:
        self.extra.append(FoundCable(End("stranger", "mlx5_0"), self.free.pop(), self.tree.link_gbps))
        self.expected.append(("surplus", frozenset()))

    def slow_down(self) -> None:
        one = self._take()
        self.links[one] = FoundCable(one.lower, one.upper, one.rate_gbps / 2)
        self.slow.add(one)
