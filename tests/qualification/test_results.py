"""An unreadable answer counts as none, and no output of a node has another effect."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.qualification.results import read

VALUE = {
    "quantity": "pair_bandwidth", "unit": "Gb/s", "node": "gpu-001", "peer": "gpu-002", "rail": "rail0", "device": "",
    "bytes": 0, "value": 0.19, "low": 0.18, "high": 0.2, "samples": 5, "simulated": False, "note": "",
}  # fmt: skip
DATA: dict[str, Any] = {
    "version": 1, "workload": "pairs", "rank": 0, "ranks": 2, "nodes": ["gpu-001", "gpu-002"],
    "started": "2026-11-21T19:00:00Z", "seconds": 1.5, "backend": "", "device": "cpu", "values": [VALUE], "texts": [],
    "problems": [], "versions": {"python": "3.13"}, "environment": {}, "options": {},
}  # fmt: skip


def lines(data: Any, workload: str = "pairs", rank: int = 0, size: int = 100) -> list[str]:
    text = base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return [f"stampworks-result {workload} {rank} {n}/{len(parts)} {part}" for n, part in enumerate(parts, 1)]


def test_an_answer_among_noise() -> None:
    """Lines of several ranks may come in any order, with anything between them."""
    other = lines({**DATA, "rank": 1}, rank=1)
    said = [*reversed(lines(DATA)), "noise", *other, "stampworks-result pairs x 1/1 zzz"]
    heard = read("\n".join(said))
    assert [result.rank for result in heard.results] == [0, 1]
    assert heard.results[0].values[0].value == 0.19
    assert heard.unreadable == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "its answer is not of version 1"),
        ({"rank": 3}, "its answer is that of another program or rank"),
        ({"values": [{**VALUE, "value": float("nan")}]}, "NaN is not a number"),
        ({"values": [{**VALUE, "value": float("inf")}]}, "Infinity is not a number"),
        ({"values": [{**VALUE, "samples": 0}]}, "pair_bandwidth is no measurement: 0.19 of 0 samples"),
        ({"values": [{**VALUE, "value": "0.19"}]}, "Result.values[0].value: expected float, got '0.19'"),
        ({"strange": 1}, "Result: knows no strange"),
        ({"ranks": 0}, "its answer is of rank 0 of 0, on 2 nodes"),
        ({"nodes": ["a", "b", "c"]}, "its answer is of rank 0 of 2, on 3 nodes"),
        ({"values": [{**VALUE, "value": 10**400}]}, "OverflowError"),
        ({"problems": [1] * 100_001}, "its answer has more than 100000 entries"),
        ({"backend": 7, "device": "x" * 9_000}, "Result.backend: expected str, got 7"),
    ],
)
def test_invalid_answers(change: dict[str, Any], why: str) -> None:
    """The reason has program and rank."""
    heard = read("\n".join(lines({**DATA, **change})))
    assert heard.results == ()
    assert heard.unreadable == (f"pairs, rank 0: {why}",)


def test_lines_of_another_rank_are_ignored() -> None:
    """Slurm labels each line with its rank; a label printed by another rank is ignored."""
    mine = [f"0: {line}" for line in lines(DATA)]
    assert len(read("\n".join(mine)).results) == 1
    for label in ("1: ", "1: 0: "):
        assert read("\n".join(f"{label}{line}" for line in lines(DATA))).results == ()


def test_depth_is_bounded() -> None:
    """Endlessly nested lists are an unreadable answer."""
    text = base64.b64encode(zlib.compress(b"[" * 200_000)).decode()
    parts = [text[at : at + 900] for at in range(0, len(text), 900)]
    said = [f"stampworks-result pairs 0 {n}/{len(parts)} {part}" for n, part in enumerate(parts, 1)]
    [why] = read("\n".join(said)).unreadable
    assert why.startswith("pairs, rank 0: ")
    assert len(why) < 300


def test_half_an_answer() -> None:
    """A line that is lost leaves nothing to guess."""
    all_of_it = lines(DATA)
    [why] = read("\n".join(all_of_it[:-1])).unreadable
    assert why == f"pairs, rank 0: {len(all_of_it) - 1} of {len(all_of_it)} parts of its answer came"


def test_a_bomb_is_not_unpacked() -> None:
    """A few lines that stand for gigabytes are refused."""
    bomb = base64.b64encode(zlib.compress(b" " * (64 << 20), 9)).decode()
    parts = [bomb[at : at + 900] for at in range(0, len(bomb), 900)]
    said = [f"stampworks-result pairs 0 {n}/{len(parts)} {part}" for n, part in enumerate(parts, 1)]
    [why] = read("\n".join(said)).unreadable
    assert "all together are larger than 16 MiB" in why


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(st.one_of(st.text(max_size=80), st.sampled_from(lines(DATA))), max_size=20), st.binary(max_size=300))
def test_anything_at_all(said: list[str], garbage: bytes) -> None:
    """Parsing never raises, and invents nothing."""
    wrapped = base64.b64encode(garbage).decode() or "A"
    heard = read("\n".join([*said, f"stampworks-result matmul 1 1/1 {wrapped}"]))
    assert {result.workload for result in heard.results} <= {"pairs"}
