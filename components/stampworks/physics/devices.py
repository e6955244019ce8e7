"""Bounds of single devices of a machine: NIC, host link, memory, matmul, storage."""

from __future__ import annotations

from stampworks import catalog
from stampworks.physics.bounds import Bound, Bounds, UnknownFactError, figure, known
from stampworks.physics.machines import BROKEN_SHARE, WIRE_SHARE, nics_on_fabric
from stampworks.text.amounts import counted

UNTRIED_SHARE = 1.05
"""Factor by which a better shape or a newer library may beat the best published matmul."""
LEAST_STORAGE_GBS = 0.125
"""A link of 1 Gb/s. A healthy rate depends on the size of the file system, so that no higher floor is possible."""


def nic(machine: catalog.Machine) -> Bounds:
    """Return the bounds of one NIC on the fabric, in GB/s of one direction."""
    rate_gbs = _nic_rate_gbps(machine) / 8
    return Bounds(
        Bound(WIRE_SHARE * rate_gbs, f"a NIC of {machine.nic_rate_gbps} Gb/s, {WIRE_SHARE:g} of it data"),
        Bound(
            BROKEN_SHARE * rate_gbs, f"{BROKEN_SHARE:g} x {machine.nic_rate_gbps} Gb/s: half of its lanes could be dead"
        ),
    )


def nics(machine: catalog.Machine) -> Bounds:
    """Return the bounds of all fabric NICs of a node together."""
    one, count = nic(machine), nics_on_fabric(machine)
    total = f"{counted(count, 'NIC')} x {machine.nic_rate_gbps} Gb/s"
    return Bounds(
        Bound(count * one.ceiling.value, f"{total}, {WIRE_SHARE:g} of it data"),
        Bound(count * one.floor.value, f"{BROKEN_SHARE:g} x {total}: half of them could be dead"),
    )


def host_to_device(machine: catalog.Machine) -> Bounds:
    """Return the bounds from the host's memory to one accelerator, in GB/s."""
    _real(machine)
    link = catalog.host_links()[
        known(machine.host_link, f"the links of the accelerators of {machine.name} to their host")
    ]
    if isinstance(link.data_share, catalog.Unknown):
        share, why = WIRE_SHARE, "the most that any link carries as data"
    else:
        share, why = link.data_share, "the part of a packet that is data"
    data_gbs = link.rate_gbs * share
    shared = f" / {link.accelerators}, for so many accelerators share it" if link.accelerators > 1 else ""
    return Bounds(
        Bound(
            data_gbs,
            f"{link.name}: {figure(link.rate_gbs)} GB/s x {share:g}, {why}",
        ),
        Bound(
            BROKEN_SHARE * data_gbs / link.accelerators,
            f"{BROKEN_SHARE:g} x {figure(data_gbs)} GB/s{shared}: half of the lanes, or the generation before",
        ),
    )


def memory(machine: catalog.Machine) -> Bounds:
    """Return the bounds of one accelerator's memory, in GB/s, with reads and writes counted together."""
    row = _accelerator(machine)
    peak_gbs = known(row.memory_bandwidth_gbs, f"the memory bandwidth of {row.name}")
    return Bounds(
        Bound(
            WIRE_SHARE * peak_gbs, f"{WIRE_SHARE:g} x {figure(peak_gbs)} GB/s of {row.name}: refreshing costs the rest"
        ),
        Bound(BROKEN_SHARE * peak_gbs, f"{BROKEN_SHARE:g} x {figure(peak_gbs)} GB/s: half of the clock would do"),
    )


def matmul(machine: catalog.Machine) -> Bounds:
    """Return the bounds of dense bf16 on one accelerator with random operands, in TFLOP/s."""
    row = _accelerator(machine)
    peak = known(row.bf16_dense_tflops, f"the bf16 peak of {row.name}")
    best = known(row.bf16_measured_tflops, f"rate of a matmul on {row.name}")
    return Bounds(
        Bound(
            min(peak, UNTRIED_SHARE * best),
            f"the best published is {figure(best)} of {figure(peak)} TFLOP/s ({best / peak:.0%}) with random operands, "
            f"x {UNTRIED_SHARE:g} for untried settings",
        ),
        Bound(
            BROKEN_SHARE * best,
            f"{BROKEN_SHARE:g} x the best published, {figure(best)} TFLOP/s: half of the clock would do",
        ),
    )


def storage(machine: catalog.Machine, nodes: int) -> Bounds:
    """Return the bounds of shared storage for several nodes together, in GB/s."""
    _real(machine)
    client_gbs = known(machine.storage_client_gbs, f"what a storage client on {machine.name} reaches")
    return Bounds(
        Bound(
            nodes * client_gbs, f"{nodes} x {figure(client_gbs)} GB/s, what a client on {machine.name} reaches at most"
        ),
        Bound(LEAST_STORAGE_GBS, "a link of 1 Gb/s reaches that"),
    )


def network_storage_ceiling(machine: catalog.Machine, nodes: int) -> Bound:
    """Return a ceiling for storage about which nothing is known: the nodes' NICs."""
    return Bound(
        nodes * nics(machine).ceiling.value, f"all NICs of the fabric together: {nodes} x {nics(machine).ceiling.why}"
    )


def _nic_rate_gbps(machine: catalog.Machine) -> int:
    _real(machine)
    nics_on_fabric(machine)  # raises an error for a machine without NICs
    return known(machine.nic_rate_gbps, f"the rate of a NIC of {machine.name}")


def _accelerator(machine: catalog.Machine) -> catalog.Accelerator:
    _real(machine)
    if not machine.accelerator:
        raise UnknownFactError(f"{machine.name} has no accelerators")
    return catalog.accelerators()[machine.accelerator]


def _real(machine: catalog.Machine) -> None:
    if machine.simulated:
        raise UnknownFactError(f"{machine.name} is simulated and has no speed of its own")
