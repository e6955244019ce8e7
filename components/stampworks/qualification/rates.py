"""Compare each node's memory, links and disks with its peers, and with known limits of its machine.

Only a burn-in has the time for these checks. A node that lacks an accelerator or a program reports the check as
skipped, and nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stampworks import catalog
from stampworks.physics import devices
from stampworks.physics.bounds import Bounds, UnknownFactError
from stampworks.physics.machines import collective_on_machines
from stampworks.qualification import peers
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import CheckFinding, Measured, Verdict, worst
from stampworks.qualification.concluding import Looks, Undecided, beside, conclude, left_out, measured, problems
from stampworks.qualification.rails import SHARE_MIN
from stampworks.qualification.results import Heard, MeasuredValue
from stampworks.qualification.subject import Subject

_STARTUP_S = 40.0
_STORAGE_PART_MIN = 0.2
"""Disks share a machine room's noise, but less than this is not noise."""
_MEMORY_PART_MIN = 0.7
_LINK_PART_MIN = 0.85
_OWN = ("/tmp",)  # noqa: S108 (the one directory that every node has for itself)
LINK = "ib_write_bandwidth"
_ON_ACCELERATORS = ("memory", "copies")


@dataclass(frozen=True)
class _Rate:
    """A rate, for which more is better, and the limits that judge it."""

    program: str
    quantity: str
    unit: str
    part_min: float
    """Minimum part of the peers' median. With enough peers their baseline is applied first, and finds smaller
    differences."""
    words: str
    bounds: Callable[[catalog.Machine, int], Bounds] | None = None
    """Known limits of the machine, by payload size."""


def _for_any_size(bounds: Callable[[catalog.Machine], Bounds]) -> Callable[[catalog.Machine, int], Bounds]:
    return lambda machine, _: bounds(machine)


_MEMORY, _HOST_LINK = _for_any_size(devices.memory), _for_any_size(devices.host_to_device)

_RATES = (
    _Rate("memory", "memory_copy", "GB/s", _MEMORY_PART_MIN, "copying memory", _MEMORY),
    _Rate("memory", "memory_triad", "GB/s", _MEMORY_PART_MIN, "adding in memory", _MEMORY),
    _Rate("copies", "h2d_bandwidth", "GB/s", _LINK_PART_MIN, "to the accelerator", _HOST_LINK),
    _Rate("copies", "d2h_bandwidth", "GB/s", _LINK_PART_MIN, "from the accelerator", _HOST_LINK),
    _Rate("copies", "d2d_bandwidth", "GB/s", _LINK_PART_MIN, "within the accelerator", _MEMORY),
    _Rate("loading", "loading", "MB/s", _STORAGE_PART_MIN, "loading samples"),
    _Rate("checkpoint", "checkpoint_write", "MB/s", _STORAGE_PART_MIN, "writing a checkpoint with all others"),
    _Rate("tools", "fio_write", "MB/s", _STORAGE_PART_MIN, "fio, writing"),
    _Rate("tools", "fio_read", "MB/s", _STORAGE_PART_MIN, "fio, reading"),
    _Rate(
        "tools", "nccl_all_reduce_busbw", "GB/s", _LINK_PART_MIN, "all_reduce_perf on its accelerators",
        lambda machine, size: collective_on_machines("all_reduce", 1, size, machine),
    ),
)  # fmt: skip


def of_devices(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Check memory, accelerators, and the path from disks into training."""
    options = {"loading": {"directories": list(subject.mounts or _OWN)}}
    for same in subject.by_machine(nodes):
        seconds = _STARTUP_S + 8 * len(same) + 2 * subject.waking_s(same[0])
        ask = Ask(("memory", "copies", "loading"), same, options, seconds, "memory, copies, loading")
        yield from _judged(subject, ask, evidence)


def of_storms(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Write a checkpoint on all nodes at once, and run established tools on nodes that have them."""
    for same in subject.by_machine(nodes):
        machine = subject.pool_of[same[0]].machine
        options: dict[str, dict[str, Any]] = {
            "checkpoint": {"directory": [*subject.mounts, *_OWN][0]},
            "tools": {
                # a single accelerator moves nothing: its busbw is 0 however sound it is
                "accelerators": machine.accelerators if machine.accelerators > 1 and not machine.simulated else 0,
                "rdma": True,
                "directories": [*_OWN, *subject.mounts],
                "bytes": 64 << 20,
            },
        }
        programs = ("checkpoint", "tools") if subject.mounts else ("tools",)  # only a shared file system counts
        yield from _judged(subject, Ask(programs, same, options, 600.0, "checkpoint of all nodes, tools"), evidence)


def _judged(subject: Subject, ask: Ask, evidence: Evidence) -> Campaign:
    heard = yield ask
    for program in ask.programs:
        nodes = _had_something_to_do(heard, program, ask.nodes)
        complaints = [*problems(heard, program), *(_links(subject, heard) if program == "tools" else ())]
        complaints += left_out(subject, heard, program) if program in _ON_ACCELERATORS else ()
        rates = [rate for rate in _RATES if rate.program == program]
        for rate in rates:
            complaints += _smaller_only(rate, heard)
            again = replace(ask, programs=(program,))
            known = {node for node, why in complaints if not isinstance(why, Undecided)}
            complaints += yield from _peer_comparison(rate, again, heard, known)
        if nodes:
            conclude(program, heard, nodes, "" if program == "tools" else rates[0].quantity, complaints, evidence)
        for rate in rates:
            evidence.add(list(_findings(subject, rate, heard)), list(_with_expected(subject, rate, heard)))
    evidence.add([], list(measured(heard, "checkpoint_write_total")))
    declared = _declared_gbps(subject)
    evidence.add([], [replace(each, expected=declared) for each in measured(heard, LINK)])


def _had_something_to_do(heard: Heard, program: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes that did not skip everything."""
    results = heard.of(program)
    skipped = {text.node for result in results for text in result.texts if text.quantity == "skipped"}
    did = {value.node for result in results for value in result.values}
    did |= {problem.node for result in results for problem in result.problems}
    return tuple(node for node in nodes if node in did or node not in skipped)


def _links(subject: Subject, heard: Heard) -> Iterator[tuple[str, str]]:
    """Report slow pairs without blaming a node: the pairs of rails find the culprit."""
    declared = _declared_gbps(subject)
    for value in peers.values(heard, LINK):
        if declared and value.value < SHARE_MIN * declared:
            way = f"from {value.node} to {value.peer} over {value.device}"
            yield "", f"ib_write_bw {way}: {value.value:.3g} of {declared:.3g} Gb/s"


def _declared_gbps(subject: Subject) -> float | None:
    return min((rail.rate_mbps for rail in subject.fabric.rails), default=0) / 1000 or None


def _peer_comparison(rate: _Rate, ask: Ask, heard: Heard, known: Collection[str]) -> Looks:
    complaints: list[tuple[str, str]] = []
    for directory, of in _values_by_directory(rate, heard).items():
        left = {place: value for place, value in of.items() if value.node not in known}
        complaints += yield from _directory_comparison(rate, ask, directory, left)
    return complaints


def _directory_comparison(rate: _Rate, ask: Ask, directory: str, of: Mapping[str, MeasuredValue]) -> Looks:
    """Measure values that are lower than the others again beside a peer."""

    def rates(again: Heard) -> Mapping[str, float]:
        return {place: value.value for place, value in _values_by_directory(rate, again).get(directory, {}).items()}

    def words(its: float, peer: str, usual: float) -> str:
        where = f" on {directory}" if directory else ""
        return f"{rate.words}{where}: {its:.3g} {rate.unit}, where {peer} has {usual:.3g}"

    complaints: list[tuple[str, str]] = []
    for suspect in peers.suspects({place: value.value for place, value in of.items()}, rate.part_min):
        if suspect.node not in dict(complaints):
            again = replace(ask, nodes=suspect.pair, what=f"{rate.words}: {suspect.name} beside {suspect.peer}")
            complaints += yield from beside(suspect, again, rates, words)
    return complaints


def _values_by_directory(rate: _Rate, heard: Heard) -> dict[str, dict[str, MeasuredValue]]:
    """Group values by directory; values of accelerators and processors have the empty directory."""
    values = [value for value in peers.values(heard, rate.quantity) if value.node]
    largest = max((value.bytes for value in values), default=0)
    found: dict[str, dict[str, MeasuredValue]] = {}
    for value in values:
        if value.bytes == largest:
            of = found.setdefault(value.device if value.device.startswith("/") else "", {})
            of[peers.place(value.node, value.device)] = value
    return found


def _smaller_only(rate: _Rate, heard: Heard) -> Iterator[tuple[str, str]]:
    """Report places measured at a smaller size than others, because they cannot be compared."""
    most: dict[str, int] = {}
    for value in peers.values(heard, rate.quantity):
        place = peers.place(value.node, value.device)
        most[place] = max(value.bytes, most.get(place, 0))
    largest = max(most.values(), default=0)
    for place, size in most.items():
        if size < largest:
            node, before = peers.at_home(place)
            yield node, Undecided(f"{before}{rate.words}: measured with {size} bytes, and its peers with {largest}")


def _findings(subject: Subject, rate: _Rate, heard: Heard) -> Iterator[CheckFinding]:
    """Judge values by known limits of the machine, which say more than peers: all peers may be slow. A node's worst
    devices count."""
    judged: dict[str, dict[Verdict, list[tuple[MeasuredValue, Bounds]]]] = {}
    for value in (value for of in _values_by_directory(rate, heard).values() for value in of.values()):
        if bounds := _bounds(subject, rate, value):
            judged.setdefault(value.node, {}).setdefault(_verdict(value.value, bounds), []).append((value, bounds))
    well = [node for node, its in judged.items() if worst(its) == "pass"]
    if well:
        yield _finding(rate, "pass", well, [each for node in well for each in judged[node]["pass"]])
    for node, its in judged.items():
        if node not in well:
            yield _finding(rate, worst(its), [node], its[worst(its)])


def _finding(
    rate: _Rate, verdict: Verdict, nodes: Sequence[str], its: Sequence[tuple[MeasuredValue, Bounds]]
) -> CheckFinding:
    """Make a finding with the number of the slowest value."""
    value, bounds = min(its, key=lambda each: each[0].value)
    ceiling, floor = bounds.ceiling, bounds.floor
    places = [peers.at_home(peers.place(each.node, each.device))[1].removesuffix(": ") for each, _ in its]
    which = f"{', '.join(filter(None, places))}: " if verdict != "pass" and any(places) else ""
    why = f"{which}{rate.words}: {value.value:.3g} of at most {ceiling.value:.3g} {value.unit}"
    why += ": more than is possible, so that something else was measured" if verdict == "unknown" else ""
    return CheckFinding(
        rate.program, verdict, tuple(nodes), "", rate.quantity, value.unit, value.bytes,
        value.value, round(floor.value, 6), why, value.simulated, f"at most: {ceiling.why}; at least: {floor.why}",
    )  # fmt: skip


def _verdict(value: float, bounds: Bounds) -> Verdict:
    if value > bounds.ceiling.value:
        return "unknown"
    return "pass" if value >= bounds.floor.value else "fail"


def _bounds(subject: Subject, rate: _Rate, value: MeasuredValue) -> Bounds | None:
    """Return the limits of a value; None when unknown: for a processor, or a machine outside the catalog."""
    machine = catalog.machines().get(subject.pool_of[value.node].machine.name) if value.node in subject.nodes else None
    if not rate.bounds or not machine or value.device == "cpu":
        return None
    try:
        return rate.bounds(machine, value.bytes)
    except UnknownFactError:
        return None


def _with_expected(subject: Subject, rate: _Rate, heard: Heard) -> Iterator[Measured]:
    for value, its in zip(peers.values(heard, rate.quantity), measured(heard, rate.quantity), strict=True):
        bounds = _bounds(subject, rate, value)
        yield replace(its, expected=round(bounds.ceiling.value, 6)) if bounds else its
