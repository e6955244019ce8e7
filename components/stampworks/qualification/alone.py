"""Checks of each node by itself and beside its peers: limits, versions, accelerators, clock, disks, arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stampworks import catalog
from stampworks.plan import OVER_TCP
from stampworks.qualification import hardware, peers
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.concluding import Complaints, Looks, beside, conclude, left_out, measured, problems
from stampworks.qualification.results import Heard, Result
from stampworks.qualification.subject import Subject
from stampworks.qualification.windows import WINDOW

DISK_FREE_MIN = 0.02
"""Minimum free part of a directory: below it, the next log or checkpoint is the last one."""
DISK_FREE_ENOUGH = 1 << 30
"""Free bytes that are enough in a large directory."""
CLOCKS_MS_MAX = 500.0
"""Maximum distance from the median of all clocks, so that credentials and logs stay comparable."""
STORAGE_PART_MIN = 0.2
"""Minimum part of the peers' median. Disks share a machine room's noise, but less than this is rarely noise."""
MATMUL_PART_MIN = 0.85
"""Minimum part of the peers' median for arithmetic. With enough peers their baseline is applied first, and finds
smaller differences."""
STORAGE_LOOKS = 5
"""Number of looks, because neighbours may make either of two disks twice as fast as the other."""
FAR_BELOW_LOOKS = 2
"""Number of looks for a disk below that part: in one of 25 starts of four healthy nodes a disk had 0.23 of the
median."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 (it is named, not written to)
_STARTUP_S = 20.0
_DISKS_S = 60.0
_TORCH_S = 30.0


def quick(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Run checks that cost no more than starting a process: limits, mounts, packets, versions, hardware reports."""
    for same in subject.by_machine(nodes):
        yield from _quick(subject, same, evidence)


def standard(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Check clocks and disks."""
    for same in subject.by_machine(nodes):
        yield from _standard(subject, same, evidence)


def arithmetic(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Check how fast arithmetic is, and whether repeated results are equal."""
    for same in subject.by_machine(nodes):
        yield from _matmul(subject, same, {"seconds": 1.0}, evidence)


def burn_in(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Repeat arithmetic for a minute, window by window, to find faults and slowdowns that appear only when warm."""
    for same in subject.by_machine(nodes):
        yield from _matmul(subject, same, {"seconds": 60.0, "windows": 20}, evidence)


def _quick(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    mounts = {"mounts": list(subject.mounts), "directories": ["/", SHARED_MEMORY, *subject.mounts]}
    programs = ("limits", "inventory")
    heard = yield Ask(programs, nodes, {"limits": mounts}, _STARTUP_S + len(nodes), "limits, versions and hardware")
    of_limits = [*problems(heard, "limits"), *_limits(subject, heard), *_packets(subject, heard)]
    conclude("limits", heard, nodes, "memory", of_limits, evidence)
    conclude("inventory", heard, nodes, "library_version", [*_inventory(subject, heard)], evidence)


def _standard(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    storage = {"directories": ["/tmp", *subject.mounts], "bytes": 4 << 20, "rounds": 2, "files": 30}  # noqa: S108
    options: dict[str, dict[str, Any]] = {"storage": storage}
    programs: tuple[str, ...] = ("clocks", "storage") if len(nodes) > 1 else ("storage",)
    if len(nodes) > 1 and subject.mounts:  # others must be able to read a checkpoint
        programs += ("checkpoint",)
        options["checkpoint"] = {"directory": subject.mounts[0], "bytes": 4 << 20, "rounds": 2}
    heard = yield Ask(programs, nodes, options, _DISKS_S + 2 * len(nodes), "clocks and disks")
    if len(nodes) > 1:
        others = tuple(node for node in nodes if node != _reference(heard))
        conclude("clocks", heard, others, "clock_offset", [*problems(heard, "clocks"), *_clocks(heard)], evidence)
    complaints = yield from _storage(heard, options)
    conclude("storage", heard, nodes, "storage_write", [*problems(heard, "storage"), *complaints], evidence)
    if "checkpoint" in programs:
        conclude("checkpoint", heard, nodes, "checkpoint_torn", [*problems(heard, "checkpoint")], evidence)
    evidence.add([], [*measured(heard, "storage_write"), *measured(heard, "clock_offset")])


def _matmul(subject: Subject, nodes: tuple[str, ...], options: Mapping[str, Any], evidence: Evidence) -> Campaign:
    """Measure all nodes at once; measure a device that is slower than its peers again beside the median one."""
    options, seconds = {"matmul": options}, _TORCH_S + subject.waking_s(nodes[0]) + 2 * options["seconds"]
    heard = yield Ask(("matmul",), nodes, options, seconds + 3 * len(nodes), "matrix multiplication")
    complaints = [*problems(heard, "matmul"), *_arithmetic(heard), *left_out(subject, heard, "matmul")]
    for suspect in peers.suspects(_rates(heard), MATMUL_PART_MIN):
        if suspect.node not in dict(complaints):
            ask = Ask(("matmul",), suspect.pair, options, seconds + 6, f"{suspect.name} beside {suspect.peer}")
            complaints += yield from beside(suspect, ask, _rates, _multiplies)
    conclude("matmul", heard, nodes, "matmul_mismatches", complaints, evidence)
    for quantity in ("matmul_fp32", "matmul_bf16"):
        evidence.add([], [*measured(heard, quantity), *measured(heard, quantity + WINDOW)])


def _limits(subject: Subject, heard: Heard) -> Complaints:
    yield from _lockable(subject, heard)
    for quantity, what in (("memlock", "lockable memory"), ("open_files", "open files"), ("memory", "memory")):
        found = peers.limits(heard, quantity)
        low, median = peers.low(found)
        usual = "no limit" if math.isinf(median) else f"{median:.0f}"
        yield from ((node, f"{what}: {found[node]:.0f}, where its peers have {usual}") for node in low)
    for value in peers.values(heard, "hugepages"):
        if value.value and "efa" in subject.pool_of[value.node].hardware:
            yield value.node, f"{value.value:.0f} huge pages are reserved, which jobs lack: with EFA none should be"
    sizes = [value for value in peers.values(heard, "directory_size") if value.device == SHARED_MEMORY]
    small, median = peers.low({value.node: value.value for value in sizes})
    for value in sizes:
        if value.node in small:
            mib, peers_mib = value.value / 2**20, median / 2**20
            yield value.node, f"{SHARED_MEMORY} has {mib:.0f} MiB, where its peers have {peers_mib:.0f}"
    whole = {(value.node, value.device): value.value for value in peers.values(heard, "directory_size")}
    for value in peers.values(heard, "directory_free"):
        size = whole.get((value.node, value.device), 0.0)
        if size and value.value < min(DISK_FREE_MIN * size, DISK_FREE_ENOUGH):
            shared = value.device in subject.mounts
            yield "" if shared else value.node, f"{value.device} has {100 * value.value / size:.1f} % free"


def _lockable(subject: Subject, heard: Heard) -> Complaints:
    """Require that RDMA can lock all memory, because its buffers stay locked. Peers are no measure: all limits may be
    too low."""
    if subject.fabric.kind in OVER_TCP:
        return
    memory = {value.node: value.value for value in peers.values(heard, "memory")}
    for node, limit in peers.limits(heard, "memlock").items():
        if subject.pool_of[node].rails and limit < memory.get(node, 0):
            yield node, f"lockable memory: {limit:.0f}, where RDMA may want all of {memory[node]:.0f}"


def _packets(subject: Subject, heard: Heard) -> Complaints:
    declared = catalog.fabrics()[subject.fabric.kind].mtu_bytes
    wrong = set()
    for value in peers.values(heard, "mtu"):
        if value.value != declared:
            wrong.add((value.node, value.rail))
            yield value.node, f"{value.rail} takes packets of {value.value:.0f} bytes, not {declared}"
    for value in peers.values(heard, "path_mtu"):
        ends = {(value.node, value.rail), (value.peer, value.rail)}
        if value.value < declared and wrong.isdisjoint(ends):
            yield "", f"{value.rail} from {value.node} to {value.peer}: no packet above {value.value:.0f} bytes arrives"


def _inventory(subject: Subject, heard: Heard) -> Complaints:
    for result in heard.of("inventory"):
        yield from ((result.node, why) for why in hardware.complaints(result))
        yield from ((result.node, problem.what) for problem in result.problems)
        yield from _accelerators(subject, result.node, result)
    yield from _differing(heard)


def _accelerators(subject: Subject, node: str, result: Result) -> Complaints:
    wanted = subject.pool_of[node].machine.accelerators if node in subject.nodes else 0
    found = next((value.value for value in result.values if value.quantity == "accelerators"), None)
    if wanted and found is None:
        yield node, f"cannot tell how many of {wanted} accelerators it has"
    elif wanted and found != wanted:
        yield node, f"{found:.0f} of {wanted} accelerators"


def _differing(heard: Heard) -> Complaints:
    """Find software and settings that differ from the majority of nodes."""
    said: dict[tuple[str, str], dict[str, str]] = {}
    answered = {result.node for result in heard.of("inventory")}
    for result in heard.of("inventory"):
        for text in result.texts:
            if text.quantity in ("library_version", "interface", "slurm_configuration", "driver_version"):
                said.setdefault((text.quantity, text.name), {})[text.node] = text.text
    for (quantity, name), of_node in sorted(said.items()):
        usual = peers.usual(of_node)
        what = f"the file {name} of Slurm" if quantity == "slurm_configuration" else name
        if usual is None:
            yield "", f"{what} differs, and no version of it has a majority: {_listed(of_node)}"
            continue
        for node, its in of_node.items():
            if its != usual:
                yield node, f"{what} is {its[:40]}, where its peers have {usual[:40]}"
        if 2 * len(of_node) > len(answered):
            yield from ((node, f"{what} is missing, which its peers have") for node in answered - set(of_node))


def _listed(of_node: Mapping[str, str]) -> str:
    return ", ".join(f"{node} {text[:20]}" for node, text in list(of_node.items())[:4])


def _reference(heard: Heard) -> str:
    """Return the node whose clock is the reference for the others."""
    return next((value.peer for value in peers.values(heard, "clock_offset")), "")


def _clocks(heard: Heard) -> Complaints:
    found = {value.node: value.value for value in peers.values(heard, "clock_offset")}
    if not found:
        return
    apart, median = peers.apart({**found, _reference(heard): 0.0}, CLOCKS_MS_MAX)
    for node in apart:
        yield node, f"its clock is {(found.get(node, 0.0) - median) / 1000:+.3g} s off those of its peers"


def _storage(heard: Heard, options: Mapping[str, Any]) -> Looks:
    complaints: list[tuple[str, str]] = []
    for directory, found in _writes(heard).items():
        complaints += yield from _directory(directory, found, options)
    return complaints


def _directory(directory: str, found: Mapping[str, float], options: Mapping[str, Any]) -> Looks:
    """Measure a slow directory again beside that of a peer; one that is far below all peers needs fewer looks."""
    far_below, _ = peers.low(found, STORAGE_PART_MIN)
    here = {"storage": {**options["storage"], "directories": [directory]}}
    complaints: list[tuple[str, str]] = []

    def rates(again: Heard) -> Mapping[str, float]:
        return _writes(again).get(directory, {})

    def words(its: float, peer: str, usual: float) -> str:
        return f"{directory} takes {its:.3g} MB/s, where that of {peer} takes {usual:.3g}"

    for suspect in peers.suspects(found, STORAGE_PART_MIN):
        ask = Ask(("storage",), suspect.pair, here, _DISKS_S, f"{directory} of {' beside '.join(suspect.pair)}")
        looks = FAR_BELOW_LOOKS if suspect.name in far_below else STORAGE_LOOKS
        complaints += yield from beside(suspect, ask, rates, words, looks)
    return complaints


def _writes(heard: Heard) -> dict[str, dict[str, float]]:
    """Return the write rate of each node, by directory."""
    by_directory: dict[str, dict[str, float]] = {}
    for value in peers.values(heard, "storage_write"):
        by_directory.setdefault(value.device, {})[value.node] = value.value
    return by_directory


def _arithmetic(heard: Heard) -> Complaints:
    for value in peers.values(heard, "matmul_mismatches"):
        if value.value:
            node, before = peers.at_home(peers.place(value.node, value.device))
            yield node, f"{before}{value.value:.0f} products {value.note}, of the same matrices, came out different"
    digests: dict[str, dict[str, str]] = {}
    for result in heard.of("matmul"):
        for text in result.texts:
            if text.quantity == "matmul_digest":
                matrices, _, device = text.name.rpartition(" ")
                digests.setdefault(matrices, {})[peers.place(text.node, device)] = text.text
    for of_place in digests.values():
        usual = peers.usual(of_place)
        if usual is None:
            yield "", f"the product of the same matrices differs, and none has a majority: {_listed(of_place)}"
            continue
        for place, its in of_place.items():
            if its != usual:
                node, before = peers.at_home(place)
                yield node, f"{before}its product of the same matrices differs from that of its peers"


def _rates(heard: Heard) -> dict[str, float]:
    """Return the rate of each device, because the others wait for the slowest."""
    found = peers.values(heard, "matmul_bf16") or peers.values(heard, "matmul_fp32")
    return {peers.place(value.node, value.device): value.value for value in found}


def _multiplies(its: float, peer: str, usual: float) -> str:
    return f"it multiplies at {its / usual:.0%} of the rate of {peer} beside it"
