"""Programs started as Slurm starts them: real processes and sockets, and ranks that break in the middle."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from validation.pairs import resent, tournament
from validation.ranks import Cluster, Ranks, first_name

from tests.workloads.conftest import ROOT, Starter


def alone(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "validation", *argv],
        cwd=ROOT / "workloads",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_pairs_over_loopback(start: Starter) -> None:
    """Both directions between two nodes are measured; rank 0 reports for both."""
    heard = start(2, "pairs", pairs={"rounds": [[["node-0", "node-1"]]], "seconds": 0.3}).heard()
    [result] = heard.results
    assert (result.rank, result.ranks, result.nodes, result.problems) == (0, 2, ("node-0", "node-1"), ())
    for quantity, unit in (("pair_bandwidth", "Gb/s"), ("pair_resent", "%")):
        found = [value for value in result.values if (value.quantity, value.unit) == (quantity, unit)]
        assert {(value.node, value.peer, value.rail) for value in found} == {
            ("node-0", "node-1", "lo"), ("node-1", "node-0", "lo")
        }  # fmt: skip
    assert len(result.values) == 4
    for value in result.values:
        if value.unit == "%":
            assert 0 <= value.value < 100
        else:
            assert 0 <= value.low <= value.value <= value.high  # in 30 ms nothing may arrive on a busy machine
            assert value.value > 0


def test_reads_retransmitted_bytes() -> None:
    """The kernel's struct grows with its version: an old kernel reports nothing."""
    info = bytearray(os.urandom(232))
    struct.pack_into("=QQ", info, 200, 12_500_000, 337_500)
    assert resent(bytes(info)) == 2.7
    struct.pack_into("=QQ", info, 200, 0, 0)
    assert resent(bytes(info)) is None
    assert resent(bytes(info[:200])) is None


def test_without_rounds_everybody_meets_everybody(start: Starter) -> None:
    """Three nodes take three rounds; a node rests in each."""
    [result] = start(3, "pairs", pairs={"seconds": 0.1}).heard().results
    assert len({(value.node, value.peer) for value in result.values}) == 6


@pytest.mark.parametrize("count", range(2, 10))
def test_a_tournament(count: int) -> None:
    """Each pair meets once, and no node appears twice in a round."""
    names = [f"n{number}" for number in range(count)]
    rounds = tournament(names)
    pairs = [frozenset(pair) for one in rounds for pair in one]
    assert len(pairs) == len(set(pairs)) == count * (count - 1) / 2
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)
    assert all(len({name for pair in one for name in pair}) == 2 * len(one) for one in rounds)


def test_programs_follow_each_other_in_one_start(start: Starter) -> None:
    """Results of single nodes come from each rank, results of several nodes from the first."""
    directory = {"directories": ["/tmp"], "bytes": 4096, "rounds": 1, "files": 3}
    heard = start(2, "limits", "clocks", "storage", "pairs", storage=directory, pairs={"seconds": 0.1}).heard()
    assert [(each.workload, each.rank) for each in heard.results] == [
        ("clocks", 0), ("limits", 0), ("limits", 1), ("pairs", 0), ("storage", 0), ("storage", 1)
    ]  # fmt: skip
    assert [problem for each in heard.results for problem in each.problems] == []
    [clock] = heard.of("clocks")[0].values
    assert (clock.node, clock.peer, clock.unit) == ("node-1", "node-0", "ms")
    assert clock.low <= 0 <= clock.high, "both ranks read the same clock"
    paths = [value for each in heard.of("limits") for value in each.values if value.quantity == "path_mtu"]
    assert {(value.node, value.peer) for value in paths} == {("node-0", "node-1"), ("node-1", "node-0")}


def test_a_rank_that_is_killed_is_named(start: Starter) -> None:
    """The first rank names it at once; the others' values stay."""
    begun = start(3, "pairs", pairs={"seconds": 1.0, "wait": 1.0})
    begun.until_measuring(2)
    begun.kill(2)
    [result] = begun.heard().results
    named = [problem for problem in result.problems if problem.node == "node-2"]
    assert [problem.what.partition(":")[0] for problem in named] == ["no answer"]
    assert result.rank == 0


def test_a_rank_that_hangs_is_named(start: Starter) -> None:
    """It is named at the end of the time limit."""
    begun = start(2, "pairs", "clocks", pairs={"seconds": 1.0, "wait": 0.5})
    begun.until_measuring(1)
    begun.freeze(1)
    heard = begun.heard()
    for workload in ("pairs", "clocks"):
        [result] = heard.of(workload)
        assert "node-1" in {problem.node for problem in result.problems}, workload
        assert any("no word within 3 s" in problem.what for problem in result.problems), workload


def test_when_the_first_rank_is_gone_the_others_say_so(start: Starter) -> None:
    """Each rank reports it, because no rank collects their messages."""
    begun = start(3, "pairs", pairs={"seconds": 1.0, "wait": 1.0})
    begun.until_measuring(0)
    begun.kill(0)
    heard = begun.heard()
    assert [each.rank for each in heard.results] == [1, 2]
    for result in heard.results:
        assert "node-0" in {problem.node for problem in result.problems}


def test_a_rank_that_never_comes_is_named(start: Starter) -> None:
    """The first rank waits for it, and continues with the others."""
    begun = start(3, "clocks")
    begun.kill(1)
    [result] = begun.heard().results
    assert [(problem.node, problem.what) for problem in result.problems] == [("node-1", "no answer: never came")]
    assert {value.node for value in result.values} == {"node-2"}


def test_a_peer_that_is_nobody_is_a_problem(start: Starter) -> None:
    """A misspelt name does not look like a broken rail."""
    [result] = start(2, "pairs", pairs={"rounds": [[["node-0", "nobody"]]], "seconds": 0.1}).heard().results
    assert [problem.what for problem in result.problems] == ["no answer from nobody: it is not among the ranks"]


def test_strangers_at_the_door_are_sent_away(start: Starter) -> None:
    """Ranks of another start on the same node are refused."""
    import socket

    begun = start(2, "clocks")
    port = json.loads(begun.command[-1])["cluster"]["port"]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as stranger:
                stranger.sendall(b"stampworks 1.1 1\n{}\n")
            break
        except OSError:
            time.sleep(0.01)
    [result] = begun.heard().results
    assert result.problems == ()


def test_a_wrong_option_of_a_program_is_its_problem() -> None:
    """The others run, and the exit code says that there is an answer."""
    done = alone("storage", "limits", "--options", '{"storage": {"byte": 1}}')
    assert done.returncode == 0
    assert "storage: problem: " in done.stderr
    assert "storage: knows no option 'byte': did you mean bytes?" in done.stderr
    assert "stampworks-result limits 0 1/" in done.stdout


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["pears"], "invalid choice: 'pears'"),
        (["limits", "--options", "{"], "validation: the options: not JSON: "),
        (["limits", "--options", '{"limit": {}}'], "validation: the options are for limit, the programs are "),
        (["limits", "--options", '{"cluster": {"port": 1}}'], "validation: cluster: port must be 1024 to 65534, not 1"),
    ],
)
def test_a_wrong_command_is_refused(argv: list[str], words: str) -> None:
    """The refusal comes before any program."""
    done = alone(*argv)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr


@pytest.mark.parametrize("program", ["pairs", "clocks"])
def test_one_rank_alone_is_too_few(program: str) -> None:
    """The error says how to start more."""
    done = alone(program)
    assert f"{program} needs two ranks or more: start it with srun -N2" in done.stderr


def test_a_program_without_torch_says_so() -> None:
    """This environment has no torch: the answer has a problem, and no traceback."""
    done = alone("matmul")
    assert done.returncode == 0
    assert "No module named 'torch'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """No partial file is left."""
    options = {"storage": {"directories": [str(tmp_path), "/no/where"], "bytes": 10, "rounds": 1, "files": 1}}
    done = alone("storage", "--options", json.dumps(options), "--out", str(tmp_path / "out"))
    result = json.loads((tmp_path / "out/storage.0.json").read_text())
    assert [problem["what"] for problem in result["problems"]] == ["/no/where: No such file or directory"]
    assert {value["device"] for value in result["values"]} == {str(tmp_path)}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("listed", "first"),
    [
        ("gpu-[001-004]", "gpu-001"),
        ("gpu-[3,7-9],x", "gpu-3"),
        ("gpu-001", "gpu-001"),
        ("a,b", "a"),
        ("a[1-2]-x", "a1-x"),
    ],
)
def test_the_first_of_slurms_names(listed: str, first: str) -> None:
    """The first rank runs on this node."""
    assert first_name(listed) == first


def test_slurm_says_who_we_are() -> None:
    """Slurm provides rank, number of ranks, node, and address of the first rank."""
    options = {"nodes": [{"name": "gpu-007", "address": "10.0.0.7"}]}
    from validation.options import read

    environment = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURMD_NODENAME": "gpu-009"}
    ranks = Ranks(read(Cluster, options, "cluster"), environment | {"SLURM_STEP_NODELIST": "gpu-[007-010]"})
    assert (ranks.rank, ranks.world, ranks.node) == (2, 4, "gpu-009")
    assert (ranks.first.name, ranks.first.address, ranks.first.port) == ("gpu-007", "10.0.0.7", 29500)
