"""A run of the engine: which part refused it."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.rehearsal.engine import Ran

OF_PROGRAM = {"diagnosticEvent": {"severity": "error", "message": "pools[0].count: must be from 1 to 4096"}}
OF_RESOURCE = {"diagnosticEvent": {"severity": "error", "message": "no such subnet", "urn": "urn:pulumi:a::b::c::d"}}
WARNING = {"diagnosticEvent": {"severity": "warning", "message": "old", "urn": "urn:pulumi:a::b::c::d"}}


@pytest.mark.parametrize(
    ("events", "part"),
    [
        ([OF_PROGRAM, WARNING], "the stack's own program"),
        ([OF_RESOURCE], "the engine"),
        ([OF_PROGRAM, OF_RESOURCE], "the engine"),
        ([WARNING], "the engine"),
    ],
)
def test_errors_without_a_resource_are_the_programs(events: list[dict[str, Any]], part: str) -> None:
    assert Ran(1, events, "").refused_by == part
