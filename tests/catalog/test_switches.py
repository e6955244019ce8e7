"""Switches of the catalog, and their choice."""

from __future__ import annotations

import pytest
from stampworks import catalog
from stampworks.catalog.rows import load
from stampworks.catalog.switches import PROTOCOLS, built_with, switch_names, switches


def test_every_row_has_its_source() -> None:
    for switch in switches().values():
        assert switch.source
        assert switch.read >= "2026"
        assert min(switch.ports.values()) == switch.ports[switch.rate_gbps]


def test_a_split_port_loses_nothing_and_gains_nothing() -> None:
    """A split port has as many lower-rate ports as share the higher rate, or fewer."""
    for switch in switches().values():
        whole = switch.rate_gbps * switch.ports[switch.rate_gbps]
        assert all(rate * count <= whole for rate, count in switch.ports.items())
        assert all(rate in switch.ports or rate // planes in switch.ports for rate, planes in switch.planes.items())


def test_a_switch_is_known_by_its_models_in_any_case() -> None:
    assert switch_names()["qm9790"] is switch_names()["mqm9700"] is switches()["qm9700"]


def test_nics_fit_their_switches() -> None:
    """The kind of the protocol, and ports of the rate."""
    for protocol, by_rate in load("switches.yaml")["built_with"].items():
        for rate in by_rate:
            switch = built_with(protocol, rate)
            assert switch is not None
            assert switch.kind == PROTOCOLS[protocol]
            assert rate // switch.planes.get(rate, 1) in switch.ports
    assert built_with("efa", 100) is None


@pytest.mark.parametrize("protocol", ["infiniband", "roce"])
def test_machines_with_nics_that_switches_are_sold_for_have_one(protocol: str) -> None:
    """Only rates without a published design have no switch: 100 Gb/s RoCE."""
    rates = {
        machine.nic_rate_gbps
        for machine in catalog.machines().values()
        if catalog.protocol_of(machine) == protocol and machine.nic_rate_gbps != catalog.UNKNOWN
    }
    assert {rate for rate in rates if not built_with(protocol, int(str(rate)))} <= {100}
