"""Limits of single devices, by known specifications and measurements."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest
from stampworks import catalog
from stampworks.physics import devices
from stampworks.physics.bounds import Bounds, UnknownFactError, figure

NAMES = catalog.machine_names()
REAL = [row for row in catalog.machines().values() if not row.simulated]


@pytest.mark.parametrize(
    ("judge", "machine", "healthy"),
    [
        # floors that vendors test with, and measurements of healthy machines
        (devices.nic, "BM.GPU4.8", 96 / 8), (devices.nic, "BM.GPU.H100.8", 192 / 8), (devices.nic, "H200.8", 384 / 8),
        (devices.nic, "B300.8", 375 / 8), (devices.nic, "ND96isr_H100_v5", 380 / 8), (devices.nics, "p5", 360),
        (devices.host_to_device, "p5en", 55.4), (devices.host_to_device, "ND96isr_H100_v5", 48),
        (devices.host_to_device, "p4d", 21), (devices.host_to_device, "GB200.4", 300),
        (devices.memory, "p5en", 4300), (devices.memory, "p4d", 1300), (devices.memory, "p6-b200", 7000),
        (devices.matmul, "p5", 794.5), (devices.matmul, "p5en", 769), (devices.matmul, "p4d", 271),
        (devices.matmul, "p6-b200", 1745), (devices.matmul, "ND128isr_GB300_v6", 1850),
    ],
)  # fmt: skip
def test_healthy_values_lie_between_the_bounds(
    judge: Callable[[catalog.Machine], Bounds], machine: str, healthy: float
) -> None:
    """No measurement is above the ceiling, and no vendor's threshold is below the floor."""
    bounds = judge(NAMES[machine])
    assert bounds.floor.value < healthy < bounds.ceiling.value


@pytest.mark.parametrize(
    ("judge", "machine", "impossible"),
    [
        (devices.nic, "BM.GPU.H100.8", 384 / 8), (devices.nics, "p5", 400), (devices.host_to_device, "p4d", 48),
        (devices.host_to_device, "p5", 63), (devices.memory, "p5", 3350), (devices.matmul, "p5", 989),
        (devices.matmul, "p5en", 894),
    ],
)  # fmt: skip
def test_unreachable_values(judge: Callable[[catalog.Machine], Bounds], machine: str, impossible: float) -> None:
    """The specification's own value is unreachable, and so is a matmul of zeros."""
    assert judge(NAMES[machine]).ceiling.value < impossible


def test_nics_of_a_node() -> None:
    """The rate of all NICs is a multiple of one NIC's."""
    for machine in REAL:
        if machine.nic_rate_gbps is catalog.UNKNOWN:
            continue
        assert isinstance(machine.nics, int)
        assert devices.nics(machine).ceiling.value == pytest.approx(machine.nics * devices.nic(machine).ceiling.value)


def test_storage_of_many_clients() -> None:
    """A client's ceiling counts once for each node."""
    one, many = (devices.storage(NAMES["p5en"], nodes) for nodes in (1, 16))
    assert one.ceiling.value == 150  # 1,200 Gb/s
    assert many.ceiling.value == 16 * 150


@pytest.mark.parametrize(
    ("judge", "machine", "text"),
    [
        (devices.host_to_device, "p6-b300",
         "the catalog does not know the links of the accelerators of p6-b300 to their host"),
        (lambda row: devices.storage(row, 1), "ND96isr_H100_v5",
         "the catalog does not know what a storage client on ND96isr_H100_v5 reaches"),
        (devices.matmul, "sim-h100", "sim-h100 is simulated and has no speed of its own"),
        (devices.nic, "sim-cpu", "sim-cpu is simulated and has no speed of its own"),
        (devices.nic, "together-h100", "the catalog does not know the NICs of together-h100"),
        (devices.nics, "m7i", "m7i has no NIC on a fabric"),
    ],
)  # fmt: skip
def test_an_unknown_fact_is_named(judge: Callable[[catalog.Machine], Bounds], machine: str, text: str) -> None:
    """No value is guessed in its place."""
    with pytest.raises(UnknownFactError) as error:
        judge(NAMES[machine])
    assert str(error.value) == text


def test_figures_have_four_digits() -> None:
    """Figures have no exponent."""
    shown = [figure(value) for value in (0.00012345, 3.14159, 12345.6, 2e9, 400.0)]
    assert shown == ["0.0001234", "3.142", "12350", "2000000000", "400"]


def followed(why: str) -> float:
    """Compute the arithmetic in the text of a bound."""
    if found := re.match(r"a NIC of ([\d.]+) Gb/s, ([\d.]+) of it data$", why):
        rate, share = map(float, found.groups())
        return rate * share / 8
    if found := re.match(r"(?:([\d.]+) x )?(\d+) NICs? x (\d+) Gb/s(?:, ([\d.]+) of it data|: half)", why):
        part, count, rate, share = (float(each or 1) for each in found.groups())
        return part * count * rate * share / 8
    if found := re.match(r"the best published is ([\d.]+) of ([\d.]+) TFLOP/s .*, x ([\d.]+) for", why):
        best, peak, more = map(float, found.groups())
        return min(peak, more * best)
    if found := re.match(r"([\d.]+) x the best published, ([\d.]+) TFLOP/s", why):
        return float(found[1]) * float(found[2])
    if found := re.match(r"\S+: ([\d.]+) GB/s x ([\d.]+), the (?:part|most)", why):
        return float(found[1]) * float(found[2])
    found = re.match(r"([\d.]+) x ([\d.]+) (G[Bb])/s(?: / (\d+))?", why)
    assert found, why
    return float(found[1]) * float(found[2]) / (8 if found[3] == "Gb" else 1) / float(found[4] or 1)


@pytest.mark.parametrize("machine", REAL, ids=lambda row: row.name)
def test_the_words_of_a_bound_are_its_arithmetic(machine: catalog.Machine) -> None:
    """Every device that the catalog knows enough of."""
    for judge in (devices.nic, devices.nics, devices.host_to_device, devices.memory, devices.matmul):
        with contextlib.suppress(UnknownFactError):
            bounds = judge(machine)
            assert followed(bounds.ceiling.why) == pytest.approx(bounds.ceiling.value, rel=1e-3)
            assert followed(bounds.floor.why) == pytest.approx(bounds.floor.value, rel=1e-3)
    with contextlib.suppress(UnknownFactError):
        assert followed(devices.storage(machine, 3).ceiling.why) == devices.storage(machine, 3).ceiling.value
