"""A result on its way: written as lines among other output, and read back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from stampworks.qualification import read
from validation import result
from validation.result import Answer


def found(workload: str = "pairs", rank: int = 0, values: int = 100) -> dict[str, Any]:
    answer = Answer("gpu-001")
    for number in range(values):
        answer.value("pair_bandwidth", "Gb/s", 1 / (number + 1), rail="rail0", peer=f"gpu-{number}")
    answer.text("digest", "cpu", "ü 'quoted' \x1b[31m\n second line")
    answer.problem("no answer", rail="rail1")
    head = {"version": 1, "workload": workload, "rank": rank, "ranks": 2, "nodes": ["gpu-001", "gpu-002"]}
    times = {"started": "2026-11-21T19:00:00Z", "seconds": 1.5, "backend": "", "device": ""}
    return {**head, **times, "options": {}, "environment": {}, "versions": {}, **result.findings(answer)}


def test_a_result_comes_back_as_it_went() -> None:
    """Lines may come in any order, with noise between them."""
    told = found()
    lines = list(result.lines(told))
    assert len(lines) > 3
    assert max(map(len, lines)) < 900
    shuffled = [*lines, "noise", "stampworks-result", "stampworks-result pairs 0 1/1", "\x1b[2J", "x" * 10_000]
    random.Random(1).shuffle(shuffled)  # noqa: S311 (no secret)
    [back] = read("\n".join(shuffled)).results
    assert len(back.values) == 100
    assert (back.values[7].peer, back.values[7].value) == ("gpu-7", told["values"][7]["value"])
    assert back.problems[0].rail == "rail1"


def test_text_from_anywhere_is_one_line() -> None:
    """A terminal that shows it obeys nothing of it."""
    [back] = read("\n".join(result.lines(found()))).results
    assert back.texts[0].text == "ü 'quoted' [31m second line"
    assert len(result.plain("x" * 10_000)) == result.WORDS_MAX


def test_ranks_and_programs_may_talk_at_the_same_time() -> None:
    """Each line has its rank and program."""
    told = [found("pairs", 0), found("pairs", 1), found("clocks", 0, values=3)]
    columns = [list(result.lines(each)) for each in told]
    mixed = [line for lines in zip(columns[0], columns[1], strict=True) for line in lines] + columns[2]
    assert {(back.workload, back.rank) for back in read("\n".join(mixed)).results} == {
        ("pairs", 0), ("pairs", 1), ("clocks", 0)
    }  # fmt: skip


def test_a_line_that_is_lost_is_seen() -> None:
    """Half an answer is none."""
    lines = list(result.lines(found()))
    heard = read("\n".join(lines[:-1]))
    assert heard.results == ()
    assert heard.unreadable == (f"pairs, rank 0: {len(lines) - 1} of {len(lines)} parts of its answer came",)


def test_a_person_reads_problems_first_and_not_everything() -> None:
    """Users who start a program by hand want to see that it worked."""
    lines = list(result.readable(found()))
    assert lines[0] == "pairs: problem: gpu-001 rail1: no answer"
    assert lines[1].startswith("pair_bandwidth gpu-001 rail0 to gpu-0: 1 Gb/s")
    assert lines[-1] == "pairs: 80 more values"


@pytest.mark.parametrize("field", ["note", "node"])
def test_a_value_says_what_it_was_told(field: str) -> None:
    """The value is for this node by default."""
    answer = Answer("gpu-001")
    answer.value("mtu", "bytes", 1500.0)
    answer.value("mtu", "bytes", 1500.0, **{field: "other"})
    assert (answer.values[0].node, answer.values[0].note) == ("gpu-001", "")
    assert getattr(answer.values[1], field) == "other"
