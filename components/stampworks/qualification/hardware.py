"""Faults that an accelerator and its driver report about themselves."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.qualification.results import MeasuredValue, Result

# Severe Xid codes of NVIDIA, and the action for each. Unlisted codes are shown and do not fail a node.
XIDS = {
    79: "fell off the bus: reboot",
    **dict.fromkeys((48, 64, 74, 95, 109, 110, 119, 120), "needs a reset"),
    54: "lacks power: isolate it",
}
# Throttle reasons that are faults: slowdown and power brake by the hardware, and heat. Idling, power caps and
# application clocks are deliberate.
THROTTLED = {0x08: "slowed by its hardware", 0x20: "too hot", 0x40: "too hot", 0x80: "short of power"}


def complaints(result: Result) -> Iterator[str]:
    """List the faults that the accelerators of one node report."""
    for value in result.values:
        if value.quantity == "accelerator_ecc_uncorrected" and value.value:
            yield f"accelerator {value.device} has {value.value:.0f} uncorrected memory errors{_simulated(value)}"
    yield from _pcie(result)
    for text in result.texts:
        if text.quantity == "xid" and text.text.isdecimal() and int(text.text) in XIDS:
            yield f"Xid {text.text} of {text.name}: it {XIDS[int(text.text)]}"
        elif text.quantity == "throttle":
            yield from (f"{text.name} is {why}" for why in _throttled(text.text))


def _pcie(result: Result) -> Iterator[str]:
    """Report narrow links. A slow link is a fault only under load, because an idle link rests at its first speed."""
    most = {v.device: v.value for v in result.values if v.quantity == "accelerator_pcie_width_max"}
    for value in result.values:
        if value.quantity == "accelerator_pcie_width" and value.value < most.get(value.device, 0):
            yield f"accelerator {value.device} has {value.value:.0f} of {most[value.device]:.0f} PCIe lanes"


def _throttled(mask: str) -> list[str]:
    try:
        bits = int(mask, 16)
    except ValueError:
        return []
    return list(dict.fromkeys(why for bit, why in THROTTLED.items() if bits & bit))


def _simulated(value: MeasuredValue) -> str:
    return " (simulated)" if value.simulated else ""
