"""Slurm's answers are not trusted: hostile, broken and unexpected ones never crash and never count as good."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks.operations import UnknownError
from stampworks.operations.slurm import client as slurm
from stampworks.text.reasons import DrainReason

from tests.operations.slurm.standin import StandIn, job, node


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("", ()),
        ("head", ("head",)),
        ("gpu-001,head", ("gpu-001", "head")),
        ("gpu-[001-003,007],head", ("gpu-001", "gpu-002", "gpu-003", "gpu-007", "head")),
        ("gpu-[099-101]", ("gpu-099", "gpu-100", "gpu-101")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("gpu-[001", ("gpu-", "001")),
        ("gpu-[5-1]", ("gpu-5-1",)),
        ("gpu-[a-b]", ("gpu-a-b",)),
    ],
)
def test_expand(hostlist: str, names: tuple[str, ...]) -> None:
    """Slurm's short form is expanded to names; malformed text gives a name that matches nothing."""
    assert slurm.expand(hostlist) == names


@pytest.mark.parametrize("bomb", ["n[1-60000],m[1-60000]", "a[1-900]b[1-900]c[1-900]"])
def test_expand_is_bounded(bomb: str) -> None:
    """A list that would fill the memory is refused."""
    with pytest.raises(UnknownError, match="more than 65536 nodes"):
        slurm.expand(bomb)


@given(st.text("gpu-[]0123456789,", max_size=40))
def test_expand_never_crashes(hostlist: str) -> None:
    """Any text gives names or a defined error."""
    with contextlib.suppress(UnknownError):
        assert all(isinstance(name, str) for name in slurm.expand(hostlist))


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("", 0),
        ("(null)", 0),
        ("gpu:8", 8),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:h100:2(IDX:0-1),nic:2", 2),
        ("gpu:h100:1(IDX:3),gpu:a100:2(IDX:0-1)", 3),
        ("nic:2", 0),
        ("gpu", None),
        ("gpu:many", None),
        ("gpu:h100:-1", None),
        (None, None),
        (8, None),
    ],
)
def test_gpus(gres: object, count: int | None) -> None:
    """GPUs are counted; an unreadable value is unknown, and not zero."""
    assert slurm.gpus(gres) == count


SET = {"reason_set_by_user": "root", "reason_changed_at": {"set": True, "infinite": False, "number": 1732190400}}


def test_nodes(cluster: StandIn) -> None:
    """States are lower case words, base state first; the reason is kept."""
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="xid 79", gres_used="gpu:h100:3(IDX:0-2)", **SET))
    assert slurm.nodes(cluster.roster) == {
        "gpu-001": slurm.SlurmNode(
            "gpu-001", ("idle", "drain"), DrainReason("slurm", "root", "xid 79"), 1732190400, 8, 3
        )
    }


@pytest.mark.parametrize(
    "at", [None, 7, True, {}, {"set": False, "number": 7}, {"set": True}, {"set": True, "number": 1 << 60}, "now"]
)
def test_a_time_that_makes_no_sense_is_unknown(cluster: StandIn, at: object) -> None:
    """The time of a reason is never guessed."""
    cluster.nodes(node("gpu-001", reason="x", reason_changed_at=at))
    assert slurm.nodes(cluster.roster)["gpu-001"].since is None


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "gpu-001"},
        {"name": "gpu-001", "state": None, "reason": 7, "gres": [], "gres_used": {}},
        {"name": "gpu-001", "state": [None, 3, {}]},
    ],
)
def test_a_node_with_holes_is_unknown(cluster: StandIn, odd: dict[str, object]) -> None:
    """Missing or mistyped fields give an unknown state, not a crash."""
    cluster.nodes(odd)
    assert slurm.nodes(cluster.roster) == {
        "gpu-001": slurm.SlurmNode("gpu-001", ("unknown",), DrainReason("slurm", "", ""), None, None, None)
    }


@pytest.mark.parametrize(
    "answer",
    ["", "slurm_load_node error", "[]", "{}", '{"nodes": {}}', '{"nodes": [1]}', '{"nodes": null}', "[" * 100_000, "7"],
)
def test_an_answer_that_is_no_answer(cluster: StandIn, answer: str) -> None:
    """Any answer other than Slurm's JSON gives an error with a hint."""
    (cluster.folder / "nodes.json").write_text(answer)
    with pytest.raises(UnknownError) as caught:
        slurm.nodes(cluster.roster)
    assert str(caught.value) == (
        "scontrol show nodes --json on the head answered something that is not its usual JSON\n"
        "  hint: look there: stampworks ssh head"
    )


def test_jobs(cluster: StandIn) -> None:
    """A job has its user and all its nodes; a job without a user name counts, too."""
    cluster.jobs([job(7, "alice", "gpu-[001-002]"), {"job_id": 8, "nodes": "gpu-001"}])
    assert slurm.jobs(cluster.roster) == (
        slurm.SlurmJob(7, "alice", ("gpu-001", "gpu-002")),
        slurm.SlurmJob(8, "unknown", ("gpu-001",)),
    )


@pytest.mark.parametrize("number", [None, "7", 7.5, True])
def test_a_job_without_a_number_is_not_dropped(cluster: StandIn, number: object) -> None:
    """A job that cannot be identified must not look like no job."""
    (cluster.folder / "jobs.000.json").write_text(json.dumps({"jobs": [{"job_id": number, "nodes": "gpu-001"}]}))
    with pytest.raises(UnknownError, match=r"^squeue listed a job without a number\n"):
        slurm.jobs(cluster.roster)
