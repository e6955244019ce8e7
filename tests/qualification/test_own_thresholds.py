"""The planner's own numbers, judged like thresholds."""

from __future__ import annotations

import pytest
from stampworks import catalog
from stampworks.physics.bounds import UnknownFactError
from stampworks.physics.machines import collective_on_machines
from stampworks.planning.build.expectations import OPERATIONS
from stampworks.qualification.audit import COLLECTIVES, audit
from stampworks.qualification.thresholds import Threshold

QUANTITIES = {operation: quantity for quantity, operation in COLLECTIVES.items()}
MACHINES = [machine for machine in catalog.machines().values() if machine.accelerators > 1 and not machine.simulated]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("nodes", [1, 2, 16])
def test_expected_rates_are_useful_thresholds(machine: catalog.Machine, nodes: int) -> None:
    """Nine tenths of the ceiling can be met and find half a machine; more than the ceiling is refused."""
    for operation in OPERATIONS:
        try:
            bounds = collective_on_machines(operation, nodes, None, machine)
        except UnknownFactError:
            continue
        for value, verdicts in (
            (0.9 * bounds.ceiling.value, {"ok"}),
            (1.11 * bounds.ceiling.value, {"refused"}),
            (0.5 * bounds.floor.value, {"refused"}),
        ):
            threshold = Threshold(1, machine.name, nodes, QUANTITIES[operation], 0, "GB/s", value)
            judged = audit(threshold)
            assert judged.verdict in verdicts, (operation, value, judged.reason)
