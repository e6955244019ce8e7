"""Check whether a healthy machine can meet thresholds and a broken one misses them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import log
from typing import Final, Literal

from stampworks import catalog
from stampworks.physics import devices
from stampworks.physics.bounds import Bound, Bounds, UnknownFactError, figure
from stampworks.physics.collectives import Operation
from stampworks.physics.machines import NEARLY_ALL, collective_on_machines, share_nvlink
from stampworks.qualification.thresholds import NoThreshold, Threshold, nearest
from stampworks.text.amounts import counted

Verdict = Literal["ok", "refused", "cannot-tell"]

COLLECTIVES: Final[dict[str, Operation]] = {
    "all_reduce_busbw": "all_reduce",
    "all_gather_busbw": "all_gather",
    "reduce_scatter_busbw": "reduce_scatter",
    "alltoall_busbw": "all_to_all",
}
# Each unit in GB/s or in TFLOP/s, the units of all judgements. The last ones of each are not legal in a file, but the
# author may have meant them.
BANDWIDTHS: Final = {"GB/s": 1.0, "Gb/s": 1 / 8, "MB/s": 1e-3, "TB/s": 1e3, "Mb/s": 1e-3 / 8}
COMPUTE: Final = {"TFLOP/s": 1.0, "GFLOP/s": 1e-3, "PFLOP/s": 1e3}
BANDWIDTH_FACTORS: Final = (8.0, 1 / 8, 1e3, 1e-3)
COMPUTE_FACTORS: Final = (1e3, 1e-3)
"""Typical errors of numbers that were converted once too often."""
STORAGE_SHARE_MIN: Final = 1 / 8
"""Part of the clients' limit. Below it, either the file system is that small, or the author confused bytes with
bits."""
ABOUT: Final = 1.1
"""Tolerance for copied specifications, which are a little above the reachable rate."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one threshold."""

    threshold: Threshold | NoThreshold
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Meaning:
    """A possible meaning of a threshold."""

    what: str
    bounds: Bounds

    def holds(self, value: float) -> bool:
        """Whether the value lies between the bounds."""
        return self.bounds.floor.value < value <= self.bounds.ceiling.value

    def nearly_holds(self, value: float) -> bool:
        """Whether the value lies within the bounds if they are widened by ABOUT."""
        return self.bounds.floor.value < value * ABOUT and value <= ABOUT * self.bounds.ceiling.value

    def distance(self, value: float) -> float:
        """Return the distance of a value from the bounds, in orders of magnitude."""
        nearest = self.bounds.ceiling.value if value > self.bounds.ceiling.value else self.bounds.floor.value
        return abs(log(value) - log(nearest))


def audit(threshold: Threshold | NoThreshold) -> Judgement:
    """Judge a threshold. A floor above the ceiling fails every machine; a floor that half a machine reaches fails none.
    Both are refused."""
    if isinstance(threshold, NoThreshold):
        return Judgement(threshold, "refused", "; ".join(threshold.problems))
    units = _units(threshold)
    if threshold.unit not in units:
        legal = "operations: TFLOP/s or GFLOP/s" if units is COMPUTE else "bytes or bits: GB/s, Gb/s or MB/s"
        return Judgement(threshold, "refused", f"the unit is wrong: {threshold.quantity} counts {legal}")
    if not threshold.value * units[threshold.unit]:
        return Judgement(threshold, "refused", "every machine reaches 0: this threshold cannot fail")
    machine = catalog.machine_names().get(threshold.machine)
    if machine is None:
        hint = nearest(threshold.machine, catalog.machine_names()) or "a row in catalog/machines would be needed"
        return Judgement(threshold, "cannot-tell", f"the catalog knows no machine of this name: {hint}")
    if threshold.quantity in COLLECTIVES and threshold.nodes * machine.accelerators == 1:
        why = "no healthy machine passes: one accelerator by itself transfers nothing, and its busbw is 0"
        return Judgement(threshold, "refused", why)
    try:
        meanings = _meanings(threshold, machine)
    except UnknownFactError as unknown:
        return _unknown(threshold, machine, str(unknown))
    return _judged(threshold, meanings)


def _meanings(threshold: Threshold, machine: catalog.Machine) -> tuple[Meaning, ...]:
    """Return the possible meanings of a threshold, the usual one first."""
    match threshold.quantity:
        case "nic_bandwidth":
            together = f"the {machine.nics} NICs of a node together"
            return Meaning("one NIC", devices.nic(machine)), Meaning(together, devices.nics(machine))
        case "h2d_bandwidth":
            return (Meaning("one accelerator", devices.host_to_device(machine)),)
        case "memory_bandwidth":
            return (Meaning("one accelerator", devices.memory(machine)),)
        case "matmul_bf16":
            return (Meaning("one accelerator", devices.matmul(machine)),)
        case "storage_write" | "storage_read":
            return (Meaning(counted(threshold.nodes, "node"), devices.storage(machine, threshold.nodes)),)
        case collective:
            return _collective_meanings(COLLECTIVES[collective], threshold, machine)


def _collective_meanings(operation: Operation, threshold: Threshold, machine: catalog.Machine) -> tuple[Meaning, ...]:
    nodes, size = threshold.nodes, threshold.size_bytes or None  # without a size, the payload is large
    ranks = f"{nodes * machine.accelerators} ranks on {counted(threshold.nodes, 'node')}"
    over_nvlink = Meaning(ranks, collective_on_machines(operation, nodes, size, machine, nvlink_used=True))
    if operation == "all_to_all" or not share_nvlink(operation, nodes, machine):
        return (over_nvlink,)  # an all-to-all usually uses a rack's NVLink
    alone = collective_on_machines(operation, nodes, size, machine)
    return over_nvlink, Meaning(f"{ranks} that use no NVLink between nodes", alone)


def _judged(threshold: Threshold, meanings: Sequence[Meaning]) -> Judgement:
    """Judge a value by the first meaning that it fits, unless a slip explains it as a more usual one."""
    value, usual = _base(threshold, threshold.unit), meanings[0]
    for meaning in meanings:
        if meaning.holds(value):
            slips = [factor for factor in _factors(threshold) if usual.holds(value * factor)]
            if meaning is not usual and slips:
                return Judgement(threshold, "refused", _either(threshold, usual, slips[0], meaning))
            if threshold.quantity.startswith("storage") and value < STORAGE_SHARE_MIN * meaning.bounds.ceiling.value:
                why = "it depends on the size of the file system, and 8 times this would fit as well"
                return Judgement(threshold, "cannot-tell", f"{_fits(threshold, meaning)}: {why}")
            return Judgement(threshold, "ok", _fits(threshold, meaning))
    closest = min(meanings, key=lambda meaning: meaning.distance(value))
    if value > closest.bounds.ceiling.value:
        said = f"no healthy machine passes: {_fits(threshold, closest)}"
        if elsewhere := _elsewhere(threshold, closest):
            return Judgement(threshold, "refused", f"{said}; perhaps it is that of {elsewhere}")
    else:
        floor = closest.bounds.floor
        reached = f"{closest.what} may reach {_value_text(threshold, floor.value)} ({floor.why})"
        said = f"a broken machine passes: {_written(threshold)} is too low, for {reached}"
    return Judgement(threshold, "refused", said + _slip(threshold, meanings))


def _unknown(threshold: Threshold, machine: catalog.Machine, fact: str) -> Judgement:
    """Judge without the fact: refuse a threshold that is wrong for every value of the fact, accept one that is always
    right."""
    if machine.simulated:
        return Judgement(threshold, "cannot-tell", fact)
    with suppress(UnknownFactError):  # another fact may be unknown, too
        if threshold.quantity == "all_reduce_busbw" and isinstance(machine.fabric_reduces, catalog.Unknown):
            plain, reduced = (
                _judged(threshold, _meanings(threshold, replace(machine, fabric_reduces=reduces)))
                for reduces in (False, True)
            )
            if plain.verdict == reduced.verdict == "ok":
                why = f"{plain.reason}; if the fabric adds up in switches, which is not known, even less"
                return replace(plain, reason=why)
            if plain.verdict == reduced.verdict:
                return reduced
        if threshold.quantity.startswith("storage"):
            floor = Bound(devices.LEAST_STORAGE_GBS, "a link of 1 Gb/s reaches that")
            bounds = Bounds(devices.network_storage_ceiling(machine, threshold.nodes), floor)
            judgement = _judged(threshold, [Meaning(counted(threshold.nodes, "node"), bounds)])
            if judgement.verdict == "refused":
                return judgement
    return Judgement(threshold, "cannot-tell", fact)


def _fits(threshold: Threshold, meaning: Meaning) -> str:
    ceiling = meaning.bounds.ceiling
    share = _base(threshold, threshold.unit) / ceiling.value
    return (
        f"{_written(threshold)} is {_part(share)} what {meaning.what} can reach, "
        f"{_value_text(threshold, ceiling.value)} ({ceiling.why})"
    )


def _either(threshold: Threshold, usual: Meaning, factor: float, other: Meaning) -> str:
    right = _value_text(threshold, _base(threshold, threshold.unit) * factor)
    ceiling = usual.bounds.ceiling
    return (
        f"{_wrong_by(factor)}: {right} would fit {usual.what}, which can reach "
        f"{_value_text(threshold, ceiling.value)} ({ceiling.why}); if {other.what} are meant, the two cannot be "
        "told apart"
    )


def _elsewhere(threshold: Threshold, closest: Meaning) -> str:
    """Return the conditions under which the number would be right; empty when the size hardly matters."""
    large, one_node = replace(threshold, size_bytes=0), replace(threshold, size_bytes=0, nodes=1)
    nearly = NEARLY_ALL * _base(threshold, threshold.unit) <= closest.bounds.ceiling.value
    for other, what in ((large, "a large payload"), (one_node, "one node")):
        if not (nearly and other is large) and other != threshold and audit(other).verdict == "ok":
            return what
    return ""


def _slip(threshold: Threshold, meanings: Sequence[Meaning]) -> str:
    """Return the probable meaning, when another unit or an extra conversion explains the number."""
    units = _units(threshold)
    for unit in units:
        if unit != threshold.unit and any(meaning.nearly_holds(_base(threshold, unit)) for meaning in meanings):
            right = _value_text(threshold, _base(threshold, unit))
            wrong = _wrong_by(units[threshold.unit] / units[unit])
            return f"; perhaps {wrong}: {figure(threshold.value)} {unit} would fit, which are {right}"
    value = _base(threshold, threshold.unit)
    for factor in _factors(threshold):
        if any(meaning.nearly_holds(value * factor) for meaning in meanings):
            return f"; perhaps {_wrong_by(factor)}: {_value_text(threshold, value * factor)} would fit"
    return ""


def _wrong_by(factor: float) -> str:
    times = figure(max(factor, 1 / factor))
    return "wrong by 8, bytes and bits" if times == "8" else f"wrong by {times} in its unit"


def _factors(threshold: Threshold) -> Sequence[float]:
    return COMPUTE_FACTORS if _units(threshold) is COMPUTE else BANDWIDTH_FACTORS


def _units(threshold: Threshold) -> dict[str, float]:
    return COMPUTE if threshold.quantity == "matmul_bf16" else BANDWIDTHS


def _base(threshold: Threshold, unit: str) -> float:
    """Return the threshold's number in GB/s or TFLOP/s, as if it had this unit."""
    return threshold.value * _units(threshold)[unit]


def _value_text(threshold: Threshold, value: float) -> str:
    return f"{figure(value / _units(threshold)[threshold.unit])} {threshold.unit}"


def _written(threshold: Threshold) -> str:
    return f"{figure(threshold.value)} {threshold.unit}"


def _part(share: float) -> str:
    """Describe a share; never say 100 % when the value is above or below the limit."""
    if share >= 10:
        return f"{figure(share)} times"
    return f"{share:.2%} of" if 0.99 <= share <= 1.01 or share < 0.01 else f"{share:.0%} of"
