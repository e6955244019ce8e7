"""The account of a run: every second is counted exactly once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks_train import ledger
from stampworks_train.ledger import BINS, US, Account, account

Event = dict[str, Any]
SETTINGS = {"steps": 4, "model": {"layers": 2, "width": 8, "length": 16}}


def event(at: float, what: str, **more: Any) -> Event:
    return {"at": at, "what": what, **more}


def step(at: float, number: int, seconds: float = 1.0, **stalled: float) -> Event:
    return event(at, "step", number=1, step=number, loss=5.0 / number, tokens=100, seconds=seconds, stalled=stalled)


def seconds(found: Account) -> dict[str, float]:
    """The bins that are not empty."""
    return {name: us / US for name, us in found.bins_us.items() if us}


BEGUN = [
    event(100, "start", attempt=1, job="7", nodes=["gpu-001", "gpu-002"], settings=SETTINGS),
    event(102, "generation", number=1, world=4, nodes=["gpu-001", "gpu-002"], why="begin", source="nothing", step=1),
    event(105, "ready", number=1),
]
LOST_A_RANK = [
    *BEGUN,
    step(106, 1, data=0.1, snapshot=0.05),
    step(107, 2, checkpoint=0.5),
    event(107.25, "checkpoint", step=2, blocked_s=0.5, seconds=1.2, bytes=1000, folder="step-00000002"),
    step(108, 3),
    event(108.5, "failure", kind="rank", node="gpu-002", rank=3, step=3, text="killed by signal 9"),
    event(108.75, "generation", number=2, world=4, why="rank 3 died", source="memory", step=3),
    event(109.5, "ready", number=2),
    step(110.5, 3),
    step(111.5, 4),
    event(112.5, "checkpoint", step=4, blocked_s=0, seconds=1, bytes=1000, folder="step-00000004"),
    event(113, "end", why="finished", step=4, digest="00"),
]


def test_every_second_of_a_run_is_accounted_for() -> None:
    """Step 3 was repeated, and the step interrupted by the failure does not count."""
    found = account(LOST_A_RANK)
    assert seconds(found) == {
        "productive": 3.35,  # steps 1 to 4 without what they waited for
        "data": 0.1,
        "snapshot": 0.05,
        "checkpoint": 1.5,  # waits of step 2, and of the last one
        "restart": 4.0,
        "lost": 1.5,
        "waiting": 2.5,
    }
    assert found.wall_us == 13 * US
    assert found.goodput == pytest.approx(3.35 / 13)


def test_a_failure_says_what_it_cost() -> None:
    """The cost is given in steps, seconds, and time to the next step."""
    [failure] = account(LOST_A_RANK).failures
    assert (failure.kind, failure.node, failure.rank, failure.step) == ("rank", "gpu-002", 3, 3)
    assert (failure.lost_steps, failure.lost_us, failure.restart_us) == (1, 1_500_000, 1_000_000)
    assert (failure.until_step_us, failure.source, failure.at_us) == (2_000_000, "memory", 8_500_000)


def test_failures_one_after_the_other_share_the_restart() -> None:
    """Each failure has the time until the next one, and its own lost steps."""
    found = account([
        *BEGUN, step(106, 1), step(107, 2),
        event(107, "failure", kind="rank", rank=1), event(108, "generation", step=3, source="memory", world=4),
        event(110, "failure", kind="node", node="gpu-002"), event(111, "generation", step=1, source="nothing", world=2),
        event(113, "ready"), step(114, 1),
    ])  # fmt: skip
    assert [each.restart_us // US for each in found.failures] == [3, 3]
    assert [each.lost_steps for each in found.failures] == [0, 2]
    assert [each.until_step_us for each in found.failures] == [7 * US, 4 * US]
    assert seconds(found) == {"productive": 1, "restart": 9, "lost": 2, "waiting": 2}


def test_a_job_that_was_killed_is_a_failure() -> None:
    """Its steps count up to the step from which the next attempt continues; the time after its last event is
    unknown."""
    found = account([
        *BEGUN, step(106, 1), step(107, 2),
        event(120, "start", attempt=2, nodes=2, job="7"),
        event(121, "generation", step=2, source="checkpoint", world=4), event(122, "ready"), step(123, 2),
    ])  # fmt: skip
    assert seconds(found) == {"productive": 2, "restart": 4, "lost": 1, "waiting": 2 + 13 + 1}
    assert [(each.kind, each.lost_steps, each.step) for each in found.failures] == [("job", 1, 2)]
    assert [(each.number, each.end, each.wall_us // US) for each in found.attempts] == [(1, "", 7), (2, "", 3)]


def test_where_a_state_is_from_may_be_known_late() -> None:
    """Ranks report it when they are ready: a checkpoint's state lies after the reported step."""
    found = account([
        *BEGUN, step(106, 1), step(107, 2), event(108, "failure", kind="node", node="gpu-002"),
        event(109, "generation", number=2, world=2), event(110, "ready", step=1, source="checkpoint"), step(111, 2),
    ])  # fmt: skip
    assert seconds(found) == {"productive": 2, "restart": 5, "lost": 2, "waiting": 2}
    assert [(each.lost_steps, each.source) for each in found.failures] == [(1, "checkpoint")]


def test_a_run_that_was_preempted_loses_nothing() -> None:
    """The run waited for its checkpoint, and then for its turn."""
    found = account([
        *BEGUN, step(106, 1),
        event(107, "checkpoint", step=1), event(107.5, "preempted", step=1), event(108, "end", why="preempted"),
        event(118, "start", attempt=2, nodes=2), event(118, "generation", step=2, source="checkpoint", world=4),
        event(119, "ready"), step(120, 2), event(120, "end", why="finished"),
    ])  # fmt: skip
    assert seconds(found) == {"productive": 2, "checkpoint": 1, "restart": 4, "waiting": 2 + 1 + 10}
    assert found.failures == ()
    assert [each.end for each in found.attempts] == ["preempted", "finished"]


def test_a_queue_is_waited_in() -> None:
    """The queue begins with the job's submission or requeue, and not before."""
    events = [
        event(100, "start", submitted=40, nodes=1), event(101, "end", why="preempted"),
        event(150, "start", submitted=120, nodes=1), event(151, "end", why="failed"),
    ]  # fmt: skip
    found = account(events)
    assert seconds(found) == {"queue": 60 + 30, "waiting": 1 + 19 + 1}
    assert found.goodput == 0
    assert [each.begun_us // US for each in found.attempts] == [60, 110]


@pytest.mark.parametrize("submitted", [10, 100, 101, 130, 200])
def test_a_queue_is_no_longer_than_nobody_trained(submitted: int) -> None:
    """The scheduler's clock and the first submission do not matter."""
    ended = [event(100, "start", nodes=1), event(101, "end", why="preempted")]
    found = account([*ended, event(150, "start", submitted=submitted, nodes=1)])
    queue = max(0, 150 - max(submitted, 101))
    assert seconds(found) == {name: took for name, took in (("queue", queue), ("waiting", 50 - queue)) if took}


@pytest.mark.parametrize(
    ("submitted", "how"),
    [(0, "100000000.000 s before"), (10**8 - 2592001, "2592001.000 s before"), (10**8 + 3, "3.000 s after")],
)
def test_a_clock_that_differs_makes_no_queue(submitted: int, how: str) -> None:
    """An impossible time of submission gives a remark."""
    found = account([event(10**8, "start", submitted=submitted, nodes=1), event(10**8 + 1, "end", why="finished")])
    assert seconds(found) == {"waiting": 1}
    assert found.remarks == (
        f"attempt 1 was put into the queue {how} its first event, which is not believed: clocks differ, and its time in"
        " the queue is not known and counts as nothing",
    )


def test_a_month_in_the_queue_is_believed() -> None:
    found = account([event(10**8, "start", submitted=10**8 - 2592000, nodes=1)])
    assert seconds(found) == {"queue": 2592000}
    assert found.remarks == ()


def test_unaccounted_time_is_waiting() -> None:
    """A late message is not waiting: the next message is closer to it."""
    late = account([*BEGUN, step(106, 1), step(106.9, 2), step(108, 3), step(109, 4)])
    assert seconds(late) == {"productive": 4, "restart": 3, "waiting": 2}
    idle = account([*BEGUN, step(106, 1), step(109, 2)])
    assert seconds(idle) == {"productive": 2, "restart": 3, "waiting": 4}


def test_a_step_that_comes_again_says_so_itself() -> None:
    """The line about the failure may be torn; an interrupted step counts no time twice."""
    found = account([
        *BEGUN, step(106, 1), step(107, 2), step(108, 3), event(109, "failure", kind="hang"),
        step(109.5, 2), step(111, 3),
    ])  # fmt: skip
    assert seconds(found) == {"productive": 2.5, "restart": 3, "lost": 3, "waiting": 2.5}


def test_a_step_waits_no_longer_than_it_takes() -> None:
    """A longer wait is not believed."""
    found = account([*BEGUN, step(106, 1, data=0.75, snapshot=0.75, checkpoint=3)])
    assert seconds(found) == {"data": 0.75, "snapshot": 0.25, "restart": 3, "waiting": 2}


def test_clocks_of_two_attempts_may_differ() -> None:
    """Negative time between them counts as zero, and a remark says so."""
    found = account([*BEGUN, step(106, 1), event(50, "start", attempt=2, nodes=2), event(51, "notice", text="x")])
    assert found.wall_us == 7 * US
    assert found.remarks == (
        "attempt 2 began 56.000 s before the last event of the one before it, so their clocks differ: what was waited"
        " between them is not known, and counts as nothing",
    )


def test_events_far_out_of_order_move_no_clock_back() -> None:
    """Events beyond the window count when they come."""
    many = [step(106 + number, number + 1) for number in range(2000)]
    early = event(105.5, "notice", text="late")
    assert account([*BEGUN, *many, early]).bins_us == account([*BEGUN, *many]).bins_us


def test_a_file_may_end_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """The next attempt may have continued in the same line."""
    lines = [json.dumps(each) for each in BEGUN]
    again = json.dumps(event(110, "start", attempt=2, nodes=2))
    path = tmp_path / "events.jsonl"
    path.write_bytes(
        "\n".join([*lines, '{"at": 106, "what": "st' + again, "[]", "\udcff", ""]).encode(errors="replace")
    )
    events = ledger.Events(path)
    assert [each["what"] for each in events] == ["start", "generation", "ready", "start"]
    assert account(events).remarks == ("2 lines of the events could not be read",)
    path.write_bytes(path.read_bytes() + b'{"at": 111, "what"')
    assert len(list(ledger.Events(path))) == 4


@pytest.mark.parametrize("line", ["1", '{"at": "now", "what": "start"}', '{"at": 1e400, "what": "x"}', '{"at": true}',
                                  '{"at": 1}', "[" * 100_000, '{"at": -1, "what": "x"}'])  # fmt: skip
def test_unreadable_lines_are_counted(tmp_path: Path, line: str) -> None:
    """Lines of any origin are counted."""
    path = tmp_path / "events.jsonl"
    path.write_text(line + "\n")
    events = ledger.Events(path)
    assert list(events) == []
    assert events.unreadable == 1


def test_unknown_events_change_nothing() -> None:
    """Something newer may have written them."""
    found = account([*LOST_A_RANK[:5], event(106.5, "weather", fine=True), *LOST_A_RANK[5:]])
    assert found.bins_us == account(LOST_A_RANK).bins_us
    assert found.remarks == ("1 events 'weather' are of no known kind",)


def test_nothing_is_known_of_nothing() -> None:
    """No figure is invented."""
    found = account([])
    assert (found.wall_us, found.goodput, found.tokens_per_s, found.cost, found.share_of_peak) == (0, *[None] * 4)


def test_operations_are_counted_as_published() -> None:
    """Llama 3.1 8B at 8,192 tokens: 57.9 GFLOP a token, attention counted in full."""
    without_input_embedding = 8_030_261_248 - 128_256 * 4096
    assert ledger.flops_per_token(without_input_embedding, 32, 4096, 8192) == pytest.approx(57.9e9, rel=1e-3)


def test_figures_need_what_they_are_made_of() -> None:
    """Share of peak and cost are unknown without the peak, the parameters and the price."""
    plain = account(LOST_A_RANK)
    assert plain.tokens == 400
    assert plain.tokens_per_s == 100
    assert (plain.flops_per_token, plain.share_of_peak, plain.cost_per_million_tokens) == (None, None, None)
    told = [{**each} for each in LOST_A_RANK]
    told[0]["settings"] = SETTINGS | {"peak_tflops": 1e-6, "price": 36.0}
    told[2]["parameters"] = 1000
    found = account(told)
    assert found.flops_per_token == 6 * 1000 + 12 * 2 * 8 * 16
    assert found.share_of_peak == pytest.approx(100 * found.flops_per_token / (4 * 1e6))
    assert found.cost is not None
    assert found.cost == pytest.approx(2 * 36 * 13 / 3600)  # two nodes
    assert found.cost_per_million_tokens == pytest.approx(found.cost * 1e6 / 400)


# Random events

NUMBERS = st.one_of(
    st.integers(-5, 10), st.floats(0, 20), st.none(), st.text(max_size=3), st.booleans(),
    st.floats(), st.just(10**400),
)  # fmt: skip
FIELDS = ("step", "seconds", "tokens", "world", "nodes", "rank", "attempt", "submitted", "number", "parameters")
EVENTS = st.lists(
    st.builds(
        lambda at, what, more, stalled: {"at": at, "what": what, "stalled": stalled, **more},
        st.floats(0, 100),
        st.sampled_from((*ledger.KNOWN, "other")),
        st.dictionaries(st.sampled_from(FIELDS), NUMBERS),
        st.one_of(st.dictionaries(st.sampled_from(ledger.STALLS), NUMBERS), NUMBERS),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(EVENTS)
def test_bins_sum_to_the_wall_time(events: list[Event]) -> None:
    """The sum holds for any events: from first to last in each attempt, and between attempts."""
    found = account(events)
    assert set(found.bins_us) == set(BINS)
    assert min(found.bins_us.values()) >= 0
    wall, at = 0, None
    for attempt in _attempts(events):
        times = [round(each["at"] * US) for each in attempt]
        begun = min(times)
        if at is None and attempt[0]["what"] == "start" and _is_time(attempt[0].get("submitted")):
            begun = min(begun, round(attempt[0]["submitted"] * US))
        between = 0 if at is None else max(0, begun - at)
        wall += between + max(times) - begun
        at = max(times) if at is None or min(times) >= at else at + max(times) - min(times)
    assert found.wall_us == wall


def _attempts(events: list[Event]) -> list[list[Event]]:
    cuts = [number for number, each in enumerate(events) if each["what"] == "start" and number]
    return [part for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True) if (part := events[a:b])]


def _is_time(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < ledger.LATEST


@settings(deadline=None)
@given(EVENTS, st.floats(0, 100), st.integers(0, 40))
def test_more_failures_make_no_run_more_productive(events: list[Event], at: float, place: int) -> None:
    """Another failure at any place never increases the goodput, with or without a new generation."""
    attempts = _attempts(events)
    before = account(events)
    if not attempts:
        return
    attempt = attempts[place % len(attempts)]
    first, last = min(each["at"] for each in attempt), max(each["at"] for each in attempt)
    attempt.append(event(min(max(at, first), last), "failure", kind="rank"))
    after = account([each for attempt in attempts for each in attempt])
    assert after.wall_us == before.wall_us
    assert after.bins_us["productive"] <= before.bins_us["productive"]


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Event], int, int]:
    """A run as a coordinator writes it, with the microseconds of complete steps and how many were done for nothing."""
    at, next_step, done, again = draw(st.integers(0, 1000)), 1, 0, 0
    events = [event(at, "start", attempt=1, nodes=2)]
    for number in range(1, draw(st.integers(2, 5))):
        first = draw(st.integers(1, next_step))
        again += next_step - first
        next_step = first
        at += draw(st.integers(0, 3))
        events.append(event(at, "generation", number=number, world=2, step=first, source="memory"))
        at += draw(st.integers(0, 3))
        events.append(event(at, "ready", number=number))
        for _ in range(draw(st.integers(0, 5))):
            took = draw(st.integers(1, 3))
            at, done = at + took, done + took * US
            events.append(step(at, next_step, took, data=draw(st.floats(0, 1))))
            next_step += 1
        events.append(event(at, "failure", kind="rank", rank=1, step=next_step - 1))
    return events, done, again


@settings(deadline=None)
@given(runs(), st.integers(0, 2**32))
def test_work_is_lost_once(run: tuple[list[Event], int, int], seed: int) -> None:
    """Each complete step either counts or is lost once, for any number of repetitions and any order."""
    events, done, again = run
    found = account(events)
    assert len(found.steps) == len({each.step for each in found.steps})
    assert found.lost_steps == again == sum(each.lost_steps for each in found.failures)
    assert found.bins_us["lost"] == sum(each.lost_us for each in found.failures)
    stalls = sum(found.bins_us[name] for name in ("productive", *ledger.STALLS))
    assert stalls + found.bins_us["lost"] == done
    apart = [{**each, "at": each["at"] + number / 100} for number, each in enumerate(events)]
    mixed = apart[1:]
    random.Random(seed).shuffle(mixed)  # noqa: S311 (no secret)
    assert account([apart[0], *mixed]) == account(apart)


@settings(max_examples=30, deadline=None)
@given(runs(), st.integers(1, 2000))
def test_any_beginning_of_a_file_can_be_read(run: tuple[list[Event], int, int], cut: int) -> None:
    """The writer may be killed after any byte, and a running run has such a file."""
    whole = "".join(json.dumps(each) + "\n" for each in run[0]).encode()
    events = [each for line in whole[:cut].split(b"\n") if (each := ledger._event(line)) is not None]
    found = account(events)
    assert found.wall_us == (round((events[-1]["at"] - events[0]["at"]) * US) if events else 0)
