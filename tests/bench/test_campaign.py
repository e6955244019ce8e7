"""A campaign of faults counts missed faults and blamed nodes, and can be resumed."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.clouds.local.faults import FAULTS

from bench.campaign import CLEAN, TIMES, Case, Outcome, cases, counts, judged

LASTING = [name for name, fault in FAULTS.items() if not fault.once]
SLOW = {"fault": "rail-slow", "check": "rails", "where": "gpu-003", "rail": "rail1"}
TRUNK = {"fault": "trunk-slow", "check": "trunks", "where": "leaf1-2", "rail": "rail0"}
LIMIT = {"fault": "memlock-small", "check": "limits", "where": "gpu-003", "rail": ""}


def failed(check: str, rail: str = "", why: str = "") -> dict[str, Any]:
    return {"check": check, "rail": rail, "why": why}


@pytest.mark.parametrize(
    ("one", "findings", "blamed", "verdict"),
    [
        (SLOW, [failed("rails", "rail1")], {"gpu-003"}, (True, True)),
        (SLOW, [failed("rails", "rail0")], {"gpu-003"}, (False, True)),
        (SLOW, [failed("rails", "rail1")], {"gpu-004"}, (True, False)),
        (SLOW, [failed("rails", "rail1"), failed("matmul")], {"gpu-003", "gpu-001"}, (True, False)),
        (SLOW, [failed("collectives", "rail1")], set(), (False, False)),
        (LIMIT, [failed("limits")], {"gpu-003"}, (True, True)),
        (LIMIT, [], set(), (False, False)),
        (TRUNK, [failed("trunks", "rail0", "rail0 between leaf1-1 and leaf1-2: slow")], set(), (True, True)),
        (TRUNK, [failed("trunks", "rail0", "rail0 between leaf1-1 and leaf1-3: slow")], set(), (True, False)),
        (TRUNK, [failed("trunks", "rail0", "rail0 between leaf1-1 and leaf1-2: slow")], {"gpu-001"}, (True, False)),
    ],
)
def test_a_fault_is_caught_by_its_check_and_its_culprit(
    one: dict[str, str], findings: list[dict[str, Any]], blamed: set[str], verdict: tuple[bool, bool]
) -> None:
    """A finding with another check, rail or node, or with an additional node, does not count as a catch."""
    assert judged(one, findings, blamed) == verdict


def test_a_seed_brings_the_same_cases_back() -> None:
    """All cases are reproduced, and the first ones do not depend on the total number."""
    every = cases(7, TIMES, CLEAN)
    assert every == cases(7, TIMES, CLEAN) != cases(8, TIMES, CLEAN)
    assert [each.number for each in every] == list(range(1, 1 + TIMES * len(LASTING) + CLEAN))
    assert sorted(each.fault for each in every) == sorted(LASTING * TIMES + [""] * CLEAN)
    assert "" in {each.fault for each in every[:15]}


def outcome(fault: str, *, caught: bool = True, right: bool = True, unknown: bool = False) -> Outcome:
    return Outcome(Case(1, fault, 1), "gpu-001", caught, right, unknown, 10.0, "")


def test_failures_are_counted_and_named() -> None:
    """Failures are counted by kind; cases that were not run are listed."""
    found = [
        *[outcome("rail-slow"), outcome("rail-slow", caught=False), outcome("bit-flip", right=False), outcome("xid")],
        *[outcome("", caught=False), outcome("", caught=True), outcome("", caught=False, unknown=True)],
    ]
    rows = {row.what: row.ours for row in counts(found, 1, 10)}
    assert rows == {
        "of 3 live faults: missed by the check that must catch it": 1,
        "of 3 live faults: caught, and not the culprit alone blamed": 1,
        "  of both: bit-flip, of 1": 1,
        "  of both: rail-slow, of 2": 1,
        "of 1 simulated faults: missed by the check that must catch it": 0,
        "of 1 simulated faults: caught, and not the culprit alone blamed": 0,
        "of 3 proofs of a sound cluster, beside a busy neighbour: false alarms": 1,
        "  without a verdict": 1,
        "  how long one takes": 10.0,
        "cases that could not be carried out, of 10": 1,
        "cases that there was no time for, of 10": 2,
    }


def test_nothing_is_counted_of_what_was_not_tried() -> None:
    """ "0 of 0" would look like a success."""
    assert [row.what for row in counts([], 0, 5)] == [
        "cases that could not be carried out, of 5",
        "cases that there was no time for, of 5",
    ]
