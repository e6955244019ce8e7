"""The record of faults: written before an injection, trusted only for the removal, read by no check."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from stampworks.clouds.faults import Injected
from stampworks.clouds.local import faults
from stampworks.clouds.local.faults import catalogue, record
from stampworks.clouds.local.faults.site import Means
from stampworks.machine_room import RoomError
from stampworks.machine_room.room import Room, of_cluster
from stampworks.plan import Plan

from tests.operations.slurm.test_status import the_plan

ROOT = Path(__file__).parents[3]
ONE = Injected("bit-flip", "gpu-001", "", None)


@pytest.fixture
def plan() -> Plan:
    return replace(the_plan(), name="t1")


@pytest.fixture
def room(plan: Plan) -> Room:
    """A room with a record and no process."""
    found = of_cluster(plan.name)
    found.folder.mkdir(parents=True)
    return found


def acts(monkeypatch: pytest.MonkeyPatch, room: Room, *, node: bool = True) -> list[str]:
    """Replace the fault `bit-flip` by one that only records its actions, and the node by a disk."""
    done: list[str] = []

    def act(word: str) -> None:
        done.append(f"{word} while {len(record.read(room))} recorded")

    means = Means(lambda site, one: act("inject"), lambda site, one: act("clear"), lambda site, one: False)
    monkeypatch.setitem(catalogue.CATALOGUE, "bit-flip", (catalogue.CATALOGUE["bit-flip"][0], means))
    monkeypatch.setattr(faults, "_is_gone", lambda room, plan, one: not node)
    return done


def test_record_of_a_fault_precedes_and_outlives_it(plan: Plan, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record exists before the fault, and until it is cleared."""
    done = acts(monkeypatch, room)
    faults.inject(plan, ONE)
    faults.inject(plan, ONE)
    assert faults.recorded("t1") == (ONE,)
    faults.clear(plan, ONE)
    assert done == ["inject while 1 recorded", "inject while 1 recorded", "clear while 1 recorded"]
    assert faults.recorded("t1") == ()
    assert list(room.folder.iterdir()) == []


def test_a_place_is_broken_once(plan: Plan, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new severity clears the old fault first."""
    done = acts(monkeypatch, room)
    faults.inject(plan, ONE)
    faults.inject(plan, replace(ONE, severity=2.0))
    assert [each.split()[0] for each in done] == ["inject", "clear", "inject"]
    assert faults.recorded("t1") == (replace(ONE, severity=2.0),)


def test_a_node_that_is_gone_took_its_faults_along(plan: Plan, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """No fault is left to clear."""
    done = acts(monkeypatch, room, node=False)
    record.add(room, ONE)
    assert faults.there(plan, ONE) is False
    faults.clear(plan, ONE)
    assert (done, faults.recorded("t1")) == ([], ())


def test_a_node_that_does_not_run_cannot_be_asked(plan: Plan, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be repaired either: the record stays, with the remedy."""
    monkeypatch.setattr(faults, "_is_gone", lambda room, plan, one: False)
    record.add(room, ONE)
    assert faults.there(plan, ONE) is None
    with pytest.raises(RoomError, match="node gpu-001 is not running\n  hint: run: pulumi up"):
        faults.clear(plan, ONE)
    assert faults.recorded("t1") == (ONE,)


def test_faults_that_stop_a_node_are_cleared_first(room: Room) -> None:
    """Other faults can be cleared only on a running node."""
    for name in ("bit-flip", "rail-slow", "power-loss"):
        record.add(room, replace(ONE, fault=name))
    assert faults.recorded("t1")[0].fault == "power-loss"


def test_a_record_that_is_broken(room: Room) -> None:
    """An unreadable record is an error with a remedy: its faults could not be cleared."""
    (room.folder / record.FILE).write_text('[{"fault": "x"}]')
    with pytest.raises(
        RoomError, match=r"faults.json: cannot read the list of injected faults: .*\n  hint: remove it with rm "
    ):
        faults.recorded("t1")


def test_no_check_knows_what_was_injected() -> None:
    """A check that reads the record would find every fault and prove nothing."""
    known = re.compile(rf"{re.escape(record.FILE)}|stampworks\.faults|\.faults import|cli fault|fault list|/brought")
    checks = ("components/stampworks/qualification", "workloads", "playbooks", "components/stampworks/configuration")
    files = [path for folder in checks for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = {path: path.read_text(errors="replace") for path in files if path.suffix != ".pyc"}
    assert len(texts) > 100
    assert [path for path, text in texts.items() if known.search(text)] == []
    readers = [path.name for path, text in texts.items() if "FAULT_BITFLIP" in text and path.suffix != ".md"]
    assert readers == ["matmul.py"]
