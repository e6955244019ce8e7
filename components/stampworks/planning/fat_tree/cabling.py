"""Compare a real cabling with the plan: missing, surplus, swapped, wrong and slow cables.

Planned and real cables that share ends and disagree form chains: two swapped cables are a ring of four, a misplaced
cable is a chain of two. Each chain is one finding, so that a mistake is reported once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stampworks.planning.fat_tree.tree import Cable, End, FatTree

Kind: TypeAlias = Literal["exchanged", "missing", "surplus", "swapped", "wrong", "slow"]

_FABRIC_PORT = re.compile(r"\d+|swp\d+(s\d+)?|mlx5_\d+|rail\d+(p\d+)?")
_LEAF = re.compile(r"leaf-(?P<unit>\d+)-rail(?P<rail>\d+)(?:-plane(?P<plane>\d+))?")


@dataclass(frozen=True)
class FoundCable:
    """A cable in a dump."""

    one: End
    other: End
    rate_gbps: float | None
    """None when the dump lacks it."""

    @property
    def ends(self) -> tuple[End, End]:
        """Both ends, in the order of the dump."""
        return self.one, self.other


@dataclass(frozen=True)
class Seen:
    """The contents of a dump."""

    links: tuple[FoundCable, ...]
    devices: Set[str] | None
    """Devices whose ports were examined; None for all devices."""


@dataclass(frozen=True)
class CableFinding:
    """A difference between planned and real cables."""

    kind: Kind
    text: str
    planned: tuple[Cable, ...]
    found: tuple[FoundCable, ...]


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison: counts of right and unexamined cables, and the differences."""

    right: int
    """Cables at their planned places, including slow ones."""
    findings: tuple[CableFinding, ...]
    unseen: int
    """Planned cables with neither device examined."""
    rates_unknown: int
    """Number of real cables whose rate the dump lacks."""
    others: int
    """Cables of other networks, or between devices that are not in the plan. They are not judged."""


class DumpError(ValueError):
    """A dump that cannot be compared with a plan: the place, the reason, and a remedy."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")


def compare(tree: FatTree, seen: Seen) -> Comparison:
    """Report every difference once, in the order of the plan's cables. Cables unknown to the plan come last."""
    planned = [*tree.cables()]
    plan_at = {end: cable for cable in planned for end in (cable.lower, cable.upper)}
    devices = {end.device for end in plan_at}
    _check_names(devices, seen)
    links = [link for link in seen.links if any(_is_of_fabric(end, devices) for end in link.ends)]
    right = [link for link in links if _is_planned(link, plan_at)]
    settled = {end for link in right for end in link.ends}
    found_at = {end: link for link in links for end in link.ends if end not in settled}
    missing: list[Cable] = []
    findings: list[CableFinding] = [*_exchanged([*found_at.items()], plan_at)]
    told = {end for finding in findings for link in finding.found for end in link.ends}
    settled |= told
    found_at = {end: link for end, link in found_at.items() if end not in told}
    for cables, found in _chains([each for each in planned if each.lower not in settled], plan_at, found_at):
        if found:
            findings.append(_finding(cables, found, plan_at))
        else:
            missing += cables
    unseen = {each for each in missing if seen.devices is not None and not {*_devices(each)} & seen.devices}
    connected = {end.device for link in seen.links for end in link.ends}
    known = [*_missing([each for each in missing if each not in unseen], connected), *findings]
    known.sort(key=lambda finding: finding.kind == "surplus")
    rated = [link for link in links if any(end in plan_at for end in link.ends)]
    return Comparison(
        right=len(right),
        findings=(*known, *_slow(rated, tree.link_gbps)),
        unseen=len(unseen),
        rates_unknown=sum(link.rate_gbps is None for link in rated),
        others=len(seen.links) - len(links),
    )


def _check_names(planned: Set[str], seen: Seen) -> None:
    names = {end.device for link in seen.links for end in link.ends}
    if names and not names & planned:
        some = ", ".join(sorted(names)[:3])
        raise DumpError(
            f"no device of the dump is one of the plan: it names {some}, and the plan {', '.join(sorted(planned)[:3])}",
            "give --names FILE, a line `planned name,real name` for each device",
        )


def _is_of_fabric(end: End, devices: Set[str]) -> bool:
    return end.device in devices and _FABRIC_PORT.fullmatch(end.port) is not None


def _is_planned(link: FoundCable, plan_at: Mapping[End, Cable]) -> bool:
    cable = plan_at.get(link.one)
    return cable is not None and {cable.lower, cable.upper} == {*link.ends}


def _chains(
    cables: Sequence[Cable], plan_at: Mapping[End, Cable], found_at: Mapping[End, FoundCable]
) -> Iterator[tuple[tuple[Cable, ...], tuple[FoundCable, ...]]]:
    """Yield groups of disagreeing cables that are connected by shared ends."""
    done: set[End] = set()
    for start in [*(each.lower for each in cables), *found_at]:
        if start in done:
            continue
        waiting, planned, found = [start], dict[Cable, None](), dict[FoundCable, None]()
        done.add(start)
        while waiting:
            end = waiting.pop()
            cable, link = plan_at.get(end), found_at.get(end)
            near = set[End]()
            if cable:
                planned[cable] = None
                near |= {cable.lower, cable.upper}
            if link:
                found[link] = None
                near |= {*link.ends}
            waiting += sorted(near - done, key=str)
            done |= near
        yield tuple(planned), tuple(found)


def _exchanged(found: Sequence[tuple[End, FoundCable]], plan_at: Mapping[End, Cable]) -> Iterator[CableFinding]:
    """Report once each pair of devices that each have at least half of the other's cables, on the same ports."""
    links: dict[tuple[str, str], dict[FoundCable, None]] = defaultdict(dict)
    for end, link in found:
        there = link.other if end == link.one else link.one
        if cable := plan_at.get(there):
            meant = cable.upper if cable.lower == there else cable.lower
            if meant.device != end.device and meant.port == end.port:
                links[end.device, meant.device][link] = None
    ports = Counter(end.device for end in plan_at)
    for (one, other), moved in links.items():
        back = links.get((other, one), {})
        if one < other and all(len(each) > 1 and 2 * len(each) >= ports[one] for each in (moved, back)):
            both = (*moved, *back)
            planned = dict.fromkeys(plan_at[end] for link in both for end in link.ends if end in plan_at)
            text = f"{one} and {other} are exchanged: {len(moved)} cables of each are on the other, on the same ports"
            yield CableFinding("exchanged", text, tuple(planned), both)


def _finding(planned: tuple[Cable, ...], found: tuple[FoundCable, ...], plan_at: Mapping[End, Cable]) -> CableFinding:
    if not planned:
        (link,) = found
        return CableFinding(
            "surplus", f"{link.one} to {link.other}: the plan has nothing at either end", planned, found
        )
    texts = [_misplaced(link, plan_at) for link in found]
    ring = len(planned) == len(found)
    swapped = ring and len(found) == 2 and {*_ends(planned)} == {end for link in found for end in link.ends}
    return CableFinding("swapped" if swapped else "wrong", "; ".join(texts), planned, found)


def _misplaced(link: FoundCable, plan_at: Mapping[End, Cable]) -> str:
    """Describe a wrong cable from its planned end; from the lower one if both are planned."""
    ends = [end for end in link.ends if end in plan_at]
    end = next((each for each in ends if plan_at[each].lower == each), ends[0])
    there = link.other if end == link.one else link.one
    cable = plan_at[end]
    meant = cable.upper if cable.lower == end else cable.lower
    return f"{end} is on {there}, not on {meant} ({_difference(meant, there)})"


def _difference(meant: End, there: End) -> str:
    if meant.device == there.device:
        return "another port of the same device"
    planned, actual = _LEAF.fullmatch(meant.device), _LEAF.fullmatch(there.device)
    if not (planned and actual):
        return "another device"
    wrong = [part for part in ("unit", "rail", "plane") if planned[part] != actual[part]]
    return f"wrong {' and '.join(wrong)}"


def _missing(cables: Sequence[Cable], connected: Set[str]) -> list[CableFinding]:
    """Report a device without any cable once, because it is down or absent."""
    lost = defaultdict[str, list[Cable]](list)
    for each in cables:
        for device in _devices(each):
            if device not in connected:
                lost[device].append(each)
    told: set[Cable] = set()
    findings = []
    for device in sorted(lost, key=lambda device: (-len(lost[device]), device)):
        here = tuple(each for each in lost[device] if each not in told)
        if len(here) > 1:
            told |= {*here}
            findings.append(CableFinding("missing", f"{device} has no cable at all: {len(here)} are missing", here, ()))
    single = [each for each in cables if each not in told]
    return findings + [CableFinding("missing", f"{each.lower} to {each.upper}", (each,), ()) for each in single]


def _slow(links: Iterable[FoundCable], planned_gbps: int) -> Iterator[CableFinding]:
    for link in links:
        if link.rate_gbps is not None and link.rate_gbps < planned_gbps:
            text = f"{link.one} to {link.other}: {link.rate_gbps:g} Gb/s of {planned_gbps}"
            yield CableFinding("slow", text, (), (link,))


def _devices(cable: Cable) -> tuple[str, str]:
    return cable.lower.device, cable.upper.device


def _ends(cables: Iterable[Cable]) -> Iterator[End]:
    for cable in cables:
        yield cable.lower
        yield cable.upper
