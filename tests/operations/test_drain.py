"""Draining waits for jobs, and leaves the cluster as it was when it cannot finish."""

from __future__ import annotations

import pytest
from stampworks.operations import BusyError, UnknownError, drain

from tests.operations.standin import StandIn, job, node

DRAIN = "update nodename={} state=drain reason=stampworks: leaves the cluster"
UNDRAIN = "update nodename={} state=undrain"


def test_a_free_node_is_drained_and_stays_so(cluster: StandIn) -> None:
    """Nothing runs: one update, no waiting, no word."""
    said: list[str] = []
    drain(cluster.roster, ["gpu-002"], 1, said.append)
    assert cluster.updates == [DRAIN.format("gpu-002")]
    assert said == []


def test_it_waits_until_the_jobs_have_ended(cluster: StandIn) -> None:
    """Jobs elsewhere are none of its business; what it waits for is said."""
    elsewhere = job(3, "bob", "gpu-001")
    cluster.jobs(
        [job(7, "alice", "gpu-[001-002]"), job(8, "bob", "gpu-002"), elsewhere],
        [job(8, "bob", "gpu-002"), elsewhere],
        [job(8, "bob", "gpu-002"), elsewhere],
        [elsewhere],
    )
    said: list[str] = []
    drain(cluster.roster, ["gpu-002"], 1, said.append, poll_s=0.01)
    assert list(dict.fromkeys(said)) == ["waiting for jobs 7, 8 on gpu-002", "waiting for job 8 on gpu-002"]
    assert cluster.updates == [DRAIN.format("gpu-002")]


def test_time_up_leaves_the_cluster_as_it_was(cluster: StandIn) -> None:
    """The nodes it drained take jobs again, and the error names node, job, user and the ways out."""
    cluster.jobs([job(8, "bob", "gpu-[001-002]"), job(7, "alice", "gpu-002")])
    with pytest.raises(BusyError) as caught:
        drain(cluster.roster, ["gpu-001", "gpu-002"], 0, print)
    assert str(caught.value) == (
        "gpu-001, gpu-002 did not become free within 0 minutes: nothing was removed, the nodes take jobs again\n"
        "  gpu-001: job 8 of bob\n"
        "  gpu-002: job 7 of alice\n"
        "  gpu-002: job 8 of bob\n"
        "  hint: wait for jobs 7, 8, or cancel: stampworks ssh head -- scancel 7 8; "
        "scheduler.drain_timeout_minutes says how long to wait"
    )
    assert cluster.updates == [DRAIN.format("gpu-001,gpu-002"), UNDRAIN.format("gpu-001,gpu-002")]


def test_a_node_that_somebody_drained_is_not_undrained(cluster: StandIn) -> None:
    """What an operator drained for a reason keeps its reason and stays drained, whatever becomes of us."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="fan broken"))
    cluster.jobs([job(8, "bob", "gpu-[001-002]")])
    with pytest.raises(BusyError):
        drain(cluster.roster, ["gpu-001", "gpu-002"], 0, print)
    assert cluster.updates == [DRAIN.format("gpu-001"), UNDRAIN.format("gpu-001")]


def test_an_interrupt_leaves_the_cluster_as_it_was(cluster: StandIn) -> None:
    """Ctrl-C while waiting: the nodes take jobs again."""

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    cluster.jobs([job(8, "bob", "gpu-002")])
    with pytest.raises(KeyboardInterrupt):
        drain(cluster.roster, ["gpu-002"], 1, interrupt)
    assert cluster.updates == [DRAIN.format("gpu-002"), UNDRAIN.format("gpu-002")]


def test_broken_answers_while_waiting_leave_the_cluster_as_it_was(cluster: StandIn) -> None:
    """When squeue answers nonsense nobody knows whether jobs run: unknown never counts as free."""
    (cluster.folder / "jobs.000.json").write_text("oops")
    with pytest.raises(UnknownError):
        drain(cluster.roster, ["gpu-002"], 1, print)
    assert cluster.updates == [DRAIN.format("gpu-002"), UNDRAIN.format("gpu-002")]


def test_a_node_that_slurm_does_not_know_runs_nothing(cluster: StandIn) -> None:
    """A node that never joined can go at once."""
    drain(cluster.roster, ["gpu-009"], 1, print)
    assert cluster.updates == []


def test_a_head_without_slurm_has_run_no_job(cluster: StandIn) -> None:
    """An `up` that failed before Slurm was configured can still shrink."""
    cluster.program("scontrol", "#!/bin/sh\nexit 1\n")
    cluster.program("find", "#!/bin/sh\nexit 0\n")
    drain(cluster.roster, ["gpu-002"], 1, print)


def test_a_silent_slurm_stops_the_shrinking(cluster: StandIn) -> None:
    """A head that has a slurm.conf and does not answer may have jobs running."""
    cluster.program("scontrol", "#!/bin/sh\necho 'slurm_load_node: Unable to contact' >&2\nexit 1\n")
    cluster.program("find", "#!/bin/sh\necho /etc/slurm/slurm.conf\n")
    with pytest.raises(Exception, match="scontrol ended with exit code 1: slurm_load_node: Unable to contact"):
        drain(cluster.roster, ["gpu-002"], 1, print)


def test_an_unreachable_head_stops_the_shrinking(cluster: StandIn) -> None:
    """No answer is no permission."""
    cluster.unreachable()
    with pytest.raises(UnknownError, match="head cannot be reached"):
        drain(cluster.roster, ["gpu-002"], 1, print)


@pytest.mark.parametrize("name", ["gpu-001,head", "-x", "all state=down", ""])
def test_names_that_would_mean_something_else_are_refused(cluster: StandIn, name: str) -> None:
    """scontrol has a syntax of its own inside one argument."""
    with pytest.raises(ValueError, match="cannot be a node's name"):
        drain(cluster.roster, [name], 1, print)
    assert cluster.updates == []
