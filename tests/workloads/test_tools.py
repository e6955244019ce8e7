"""Output of nccl-tests, ib_write_bw and fio, and the rates in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from validation import tools
from validation.tools import Reading, Unreadable, read_fio, read_ib, read_nccl

from tests.workloads.conftest import ROOT

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def rates(readings: list[Reading]) -> list[tuple[str, str, int, float]]:
    return [(one.quantity, one.unit, one.bytes, one.spread.value) for one in readings]


def test_nccl_gives_a_rate_for_each_size() -> None:
    """Each size has its rate, not the average; sizes with 0.00 have none, and N/A means unchecked."""
    assert [each for each in rates(read_nccl(recorded("nccl-whole"))) if each[0].endswith("busbw")] == [
        ("nccl_all_reduce_busbw", "GB/s", 16777216, 222.27),
        ("nccl_all_reduce_busbw", "GB/s", 268435456, 449.28),
        ("nccl_all_reduce_busbw", "GB/s", 1073741824, 474.72),
    ]
    assert 286.81 not in [rate for *_, rate in rates(read_nccl(recorded("nccl-whole")))]


def test_ib_gives_its_average() -> None:
    """With a duration it prints 0.00 as the peak."""
    assert rates(read_ib(recorded("ib-whole"))) == [("ib_write_bandwidth", "Gb/s", 65536, 392.55)]


def test_ibs_megabytes_are_of_two_to_the_twentieth() -> None:
    """Both units of the same run are the same rate."""
    [one] = read_ib(recorded("ib-megabytes"))
    assert one.spread.value == pytest.approx(392.55, rel=1e-4)


def test_fio_gives_the_direction_that_moved_something() -> None:
    """A read that was not asked for is not 0 MB/s."""
    [one] = read_fio(recorded("fio-write"))
    assert (one.quantity, one.unit, one.spread.samples) == ("fio_write", "MB/s", 3)
    assert one.spread.value == pytest.approx(1431.66, rel=1e-4)
    assert one.spread.low < one.spread.value < one.spread.high


@pytest.mark.parametrize(
    ("read", "name", "words"),
    [
        (read_nccl, "nccl-truncated", "its output does not come to its end"),
        (read_nccl, "nccl-wrong", "7 wrong results at 16777216 bytes"),
        (read_nccl, "fio-write", "its output does not come to its end"),
        (read_ib, "ib-truncated", "its output does not come to its end"),
        (read_ib, "ib-nothing", "it has no row with a rate"),
        (read_ib, "nccl-whole", "it has no table"),
        (read_fio, "fio-truncated", "its output is not what fio says as JSON, or does not come to its end"),
        (read_fio, "fio-full", "job stampworks: error 28"),
        (read_fio, "ib-whole", "its output is not what fio says as JSON, or does not come to its end"),
    ],
)
def test_unreadable_output_is_a_problem(read: object, name: str, words: str) -> None:
    """The problem has a reason, and no value."""
    with pytest.raises(Unreadable) as refusal:
        read(recorded(name))  # type: ignore[operator]
    assert str(refusal.value) == words


@pytest.mark.parametrize("read", [read_nccl, read_ib, read_fio])
@pytest.mark.parametrize("name", ["nccl-whole", "ib-whole", "fio-write"])
def test_a_beginning_is_never_a_result(read: object, name: str) -> None:
    """A truncated output gives no value, or the same values."""
    text = recorded(name)
    whole = _rates(read, text)
    for end in range(0, len(text), 7):
        assert _rates(read, text[:end]) in (None, whole)


def _rates(read: object, text: str) -> list[tuple[str, str, int, float]] | None:
    try:
        return rates(read(text))  # type: ignore[operator]
    except Unreadable:
        return None


def test_a_tool_is_used_where_it_is(tmp_path: Path) -> None:
    """The output of a tool becomes values; a failing or missing tool gives none."""
    (tmp_path / "fio").write_text(f"#!/bin/sh\ncat {RECORDED}/fio-write.txt\n")
    (tmp_path / "all_reduce_perf").write_text("#!/bin/sh\necho 'no device' >&2\nexit 3\n")
    for name in ("fio", "all_reduce_perf"):
        (tmp_path / name).chmod(0o755)
    options = {"tools": {"accelerators": 8, "directories": ["/tmp"], "rdma": True}}
    subprocess.run(
        [sys.executable, "-m", "validation", "tools", "--options", json.dumps(options), "--out", str(tmp_path)],
        cwd=ROOT / "workloads",
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    result = json.loads((tmp_path / "tools.0.json").read_text())
    assert {value["quantity"] for value in result["values"]} == {"fio_write"}
    assert [problem["what"] for problem in result["problems"]] == ["all_reduce_perf: exit code 3: no device"]
    assert [(text["quantity"], text["name"]) for text in result["texts"]] == [("skipped", "ib_write_bw")]


@pytest.mark.parametrize(("rank", "writes"), [(0, False), (1, True)])
def test_neighbours_measure_the_devices_that_both_have(
    rank: int, writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first listens; the second writes to it and reports."""
    there = {0: ["mlx5_0", "mlx5_1"], 1: ["mlx5_1"], 2: []}
    used: list[tuple[list[str], bool]] = []
    monkeypatch.setattr(tools, "rdma_devices", lambda: there[rank])
    monkeypatch.setattr(tools, "SERVER_S", 0)
    monkeypatch.setattr(tools, "_use", lambda command, *_, tell, **__: used.append((command, tell)))
    meeting = SimpleNamespace(names={0: "a", 1: "b", 2: "c"}, exchange=lambda *_: there)
    cluster = SimpleNamespace(named=lambda name: SimpleNamespace(address=f"address of {name}"))
    ranks = SimpleNamespace(rank=rank, meeting=meeting, cluster=cluster)
    tools._between_neighbours(ranks, tools.Options(rdma=True), None)  # type: ignore[arg-type]
    [(command, tells)] = used
    assert (tells, "--ib-dev=mlx5_1" in command, command[-1] == "address of a") == (writes, True, writes)
