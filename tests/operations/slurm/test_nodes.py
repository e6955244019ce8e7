"""Draining waits for jobs, and leaves the cluster as it was when it cannot finish."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from stampworks.operations import BusyError, HeldError, InputError, UnknownError, said_by, vacate
from stampworks.operations.drain import LEAVES, RENEWED
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm.nodes import drain, give_back, wait_until_free
from stampworks.operations.slurm.service import SlurmService
from stampworks.text.reasons import DrainReason, written

from tests.operations.slurm.standin import StandIn, job, node
from tests.operations.slurm.test_status import the_plan, with_login

DRAIN = 'update nodename={} state=drain reason="stampworks: leaves the cluster"'
UNDRAIN = "update nodename={} state=undrain"
BOB = DrainReason("person", "bob", "fan broken")


def test_a_free_node_is_drained_and_stays_so(cluster: StandIn) -> None:
    """Without a job there is a single update, no wait and no message."""
    said: list[str] = []
    vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, said.append)
    assert cluster.updates == [DRAIN.format("gpu-002")]
    assert said == []


def test_it_waits_until_the_jobs_have_ended(cluster: StandIn) -> None:
    """Jobs on other nodes do not matter. Progress names the jobs that are waited for."""
    elsewhere = job(3, "bob", "gpu-001")
    cluster.jobs(
        [job(7, "alice", "gpu-[001-002]"), job(8, "bob", "gpu-002"), elsewhere],
        [job(8, "bob", "gpu-002"), elsewhere],
        [job(8, "bob", "gpu-002"), elsewhere],
        [elsewhere],
    )
    said: list[str] = []
    vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, said.append, poll_s=0.01)
    assert list(dict.fromkeys(said)) == ["waiting for jobs 7, 8 on gpu-002", "waiting for job 8 on gpu-002"]
    assert cluster.updates == [DRAIN.format("gpu-002")]


def test_time_up_leaves_the_cluster_as_it_was(cluster: StandIn) -> None:
    """The drained nodes take jobs again, and the error names node, job, user and remedies."""
    cluster.jobs([job(8, "bob", "gpu-[001-002]"), job(7, "alice", "gpu-002")])
    with pytest.raises(BusyError) as caught:
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-001", "gpu-002"], LEAVES), 0, print)
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
    """A node that an operator drained keeps its reason and stays drained."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason="fan broken"))
    cluster.jobs([job(8, "bob", "gpu-[001-002]")])
    with pytest.raises(BusyError):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-001", "gpu-002"], LEAVES), 0, print)
    assert cluster.updates == [DRAIN.format("gpu-001"), UNDRAIN.format("gpu-001")]


def test_an_interrupt_leaves_the_cluster_as_it_was(cluster: StandIn) -> None:
    """After Ctrl-C during the wait, the nodes take jobs again."""

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    cluster.jobs([job(8, "bob", "gpu-002")])
    with pytest.raises(KeyboardInterrupt):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, interrupt)
    assert cluster.updates == [DRAIN.format("gpu-002"), UNDRAIN.format("gpu-002")]


def test_broken_answers_while_waiting_leave_the_cluster_as_it_was(cluster: StandIn) -> None:
    """With invalid output of squeue it is unknown whether jobs run, and unknown never counts as free."""
    (cluster.folder / "jobs.000.json").write_text("oops")
    with pytest.raises(UnknownError):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, print)
    assert cluster.updates == [DRAIN.format("gpu-002"), UNDRAIN.format("gpu-002")]


def test_a_node_that_slurm_does_not_know_runs_nothing(cluster: StandIn) -> None:
    """A node that never joined can go at once."""
    vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-009"], LEAVES), 1, print)
    assert cluster.updates == []


KEEPER = "'770 /usr/sbin/slurmstepd infinity'"


def without_scheduler(cluster: StandIn, steps: str) -> None:
    cluster.program("scontrol", "#!/bin/sh\nexit 1\n")
    cluster.program("find", "#!/bin/sh\nexit 0\n")
    cluster.program("pgrep", f"#!/bin/sh\n{steps}\n")


def test_a_head_without_slurm_schedules_nothing(cluster: StandIn) -> None:
    """An `up` that failed before Slurm was configured can still shrink the cluster, and a roll of all nodes continues.
    The process that keeps control groups does not count."""
    for steps in ("exit 1", f"echo {KEEPER}"):
        without_scheduler(cluster, steps)
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002", "gpu-009"], LEAVES), 1, print)


def test_jobs_go_on_without_a_head(cluster: StandIn) -> None:
    """A head that lost its disk knows of no job; the nodes do."""
    without_scheduler(cluster, f"echo {KEEPER}; echo '12 slurmstepd: [7.batch]'")
    with pytest.raises(UnknownError) as caught:
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, print)
    assert str(caught.value) == (
        "jobs run on gpu-002, and the head runs no scheduler that could wait for them\n"
        "  hint: undo the change of the pool, and make it again after a `pulumi up`, which gives the head its scheduler"
    )


def test_a_node_that_cannot_be_asked_for_jobs_stops_it(cluster: StandIn) -> None:
    """A missing answer never counts as free."""
    without_scheduler(cluster, "echo 'no such option' >&2; exit 2")
    with pytest.raises(UnknownError, match="gpu-002: pgrep ended with exit code 2: no such option"):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, print)


def test_a_silent_slurm_stops_the_shrinking(cluster: StandIn) -> None:
    """A head that has a slurm.conf and does not answer may have jobs running."""
    cluster.program("scontrol", "#!/bin/sh\necho 'slurm_load_node: Unable to contact' >&2\nexit 1\n")
    cluster.program("find", "#!/bin/sh\necho /etc/slurm/slurm.conf\n")
    with pytest.raises(Exception, match="scontrol ended with exit code 1: slurm_load_node: Unable to contact"):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, print)


def test_an_unreachable_head_stops_the_shrinking(cluster: StandIn) -> None:
    """A missing answer never counts as free."""
    cluster.unreachable()
    with pytest.raises(UnknownError, match="head cannot be reached"):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-002"], LEAVES), 1, print)


@pytest.mark.parametrize("name", ["gpu-001,head", "-x", "all state=down", ""])
def test_names_that_would_mean_something_else_are_refused(cluster: StandIn, name: str) -> None:
    """scontrol has a syntax of its own within an argument."""
    with pytest.raises(ValueError, match="is not the name of a node"):
        vacate(SlurmService(cluster.roster), dict.fromkeys([name], LEAVES), 1, print)
    assert cluster.updates == []


def test_a_person_who_drains_while_it_waits_is_not_overruled(cluster: StandIn) -> None:
    """The toolkit resumes only its own drains, and none for which a user has given a reason meanwhile."""

    def somebody(_: str) -> None:
        drain(the_plan(), cluster.roster, ["gpu-002"], BOB)
        raise KeyboardInterrupt

    cluster.jobs([job(8, "alice", "gpu-[001-002]")])
    with pytest.raises(KeyboardInterrupt):
        vacate(SlurmService(cluster.roster), dict.fromkeys(["gpu-001", "gpu-002"], LEAVES), 1, somebody)
    assert cluster.updates[-1] == UNDRAIN.format("gpu-001")
    assert slurm.nodes(cluster.roster)["gpu-002"].reason == BOB


def test_drain_of_an_interrupted_up_is_taken_over(cluster: StandIn) -> None:
    """The next `up` takes over the drain of a killed one, and undoes it on failure."""
    cluster.nodes(node("gpu-001"), node("gpu-002", "IDLE", "DRAIN", reason=written(LEAVES)))
    cluster.jobs([job(8, "bob", "gpu-002")])
    with pytest.raises(BusyError):
        vacate(SlurmService(cluster.roster), {"gpu-002": RENEWED}, 0, print)
    assert cluster.updates == [
        'update nodename=gpu-002 state=drain reason="stampworks: gets a new disk"',
        UNDRAIN.format("gpu-002"),
    ]


def test_each_node_gets_its_own_reason(cluster: StandIn) -> None:
    """Nodes that leave and nodes that get a new disk are drained together, with separate reasons."""
    vacate(SlurmService(cluster.roster), {"gpu-001": LEAVES, "gpu-002": RENEWED}, 1, print)
    found = slurm.nodes(cluster.roster)
    assert [found[name].reason for name in ("gpu-001", "gpu-002")] == [LEAVES, RENEWED]


# --- what a person does


@pytest.mark.parametrize(
    "text",
    ["new fans", 'says "no"', "'; reboot; $(reboot) `reboot` | reboot", "a=b state=idle", "stampworks: x", "Lüfter"],
)
def test_a_reason_arrives_as_it_was_given(cluster: StandIn, text: str) -> None:
    """The reason passes shell, scontrol and our own form unchanged."""
    drain(the_plan(), cluster.roster, ["gpu-002"], said_by("alice", text))
    found = slurm.nodes(cluster.roster)
    assert found["gpu-002"].reason == DrainReason("person", "alice", text)
    assert (found["gpu-001"].states, found["gpu-002"].states) == (("idle",), ("idle", "drain"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "the reason is empty\n  hint: give a short reason, for other users of the node"),
        ("a\nb", "the reason has the character U+000A in it\n  hint: write it in one line of plain text"),
        ("\x1b[2J", "the reason has the character U+001B in it\n  hint: write it in one line of plain text"),
        ("\u202egnihton", "the reason has the character U+202E in it\n  hint: write it in one line of plain text"),
        (
            "ü" * 150,
            "the reason is 59 bytes too long: with its author, Slurm keeps 255\n  hint: shorten it",
        ),
    ],
)
def test_refuses_reasons_that_slurm_cannot_store(text: str, message: str) -> None:
    """The reason is refused before anything is drained."""
    with pytest.raises(InputError) as caught:
        said_by("alice", text)
    assert str(caught.value) == message


def test_the_longest_reason_is_taken() -> None:
    """The limit includes the author's login."""
    assert len(written(said_by("alice", "x" * (255 - len("person alice: "))))) == 255


def test_an_odd_login_cannot_look_like_a_reason() -> None:
    """The author before the colon is a single word."""
    assert said_by("a b: c\n", "x") == DrainReason("person", "a-b--c-", "x")


def test_a_person_takes_over_from_the_health_check(cluster: StandIn) -> None:
    """The health check, which resumes only its own drains, then leaves the node alone."""
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="health: rail0 has no carrier"), node("gpu-002"))
    drain(the_plan(), cluster.roster, ["gpu-001"], BOB)
    assert slurm.nodes(cluster.roster)["gpu-001"].reason == BOB


@pytest.mark.parametrize("do", [functools.partial(drain, reason=BOB), give_back])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu-01", "no node is called 'gpu-01' in cluster local\n  hint: did you mean gpu-001 or gpu-0"),
        ("ALL", "no node is called 'ALL' in cluster local\n  hint: there are: gpu-001, gpu-002, gpu-003"),
        ("gpu-001,head", "no node is called 'gpu-001,head' in cluster local\n  hint: did you mean gpu-001 or "),
        ("head", "head is the controller and runs no jobs\n  hint: there are: gpu-001, gpu-002, gpu-003"),
        ("login-001", "login-001 is a login node and runs no jobs\n  hint: did you mean gpu-001?"),
        ("gpu-003", "Slurm does not know gpu-003 yet\n  hint: `pulumi up` adds it to the cluster"),
    ],
)
def test_a_wrong_node_is_told_its_neighbours(
    cluster: StandIn, do: Callable[..., None], name: str, message: str
) -> None:
    """Other nodes of the request are not changed either."""
    with pytest.raises(InputError) as caught:
        do(with_login(the_plan(count=3)), cluster.roster, ["gpu-001", name])
    assert str(caught.value).startswith(message)
    assert cluster.updates == []


def test_a_wait_that_runs_out_leaves_them_drained(cluster: StandIn) -> None:
    """A user's drain stays, with or without a wait."""
    cluster.jobs([job(8, "bob", "gpu-002")])
    drain(the_plan(), cluster.roster, ["gpu-002"], BOB)
    with pytest.raises(BusyError, match="gpu-002 did not become free within 0 minutes: they stay drained"):
        wait_until_free(cluster.roster, ["gpu-002"], 0, print)
    assert slurm.nodes(cluster.roster)["gpu-002"].reason == BOB


@pytest.mark.parametrize("reason", [written(BOB), "fan broken", "Not responding"])
def test_node_held_by_a_person_or_slurm_is_returned(cluster: StandIn, reason: str) -> None:
    """A node that already takes jobs is left alone."""
    cluster.nodes(node("gpu-001", "DOWN", reason=reason), node("gpu-002", reason="gone by"))
    give_back(the_plan(), cluster.roster, ["gpu-001", "gpu-002", "gpu-001"])
    assert cluster.updates == ["update nodename=gpu-001 state=resume"]


def test_return_of_a_node_held_by_the_toolkit_needs_force(cluster: StandIn) -> None:
    """All or none are resumed: the error names each held node, with author and reason."""
    cluster.nodes(
        node("gpu-001", "IDLE", "DRAIN", reason="health: rail0 has no carrier"),
        node("gpu-002", "IDLE", "DRAIN", reason="stampworks: leaves the cluster"),
        node("gpu-003", "IDLE", "DRAIN", reason=written(BOB)),
    )
    three = ["gpu-001", "gpu-002", "gpu-003"]
    with pytest.raises(HeldError) as caught:
        give_back(the_plan(count=3), cluster.roster, three)
    assert str(caught.value) == (
        "gpu-001 is held by the health check: rail0 has no carrier\n"
        "gpu-002 is held by an `up`: leaves the cluster\n"
        "no node was returned\n"
        "  hint: the health check returns gpu-001 when it passes; `pulumi up --refresh` returns gpu-002 when no "
        "`up` needs the drain any more; --force returns them now"
    )
    assert cluster.updates == []
    give_back(the_plan(count=3), cluster.roster, three, force=True)
    assert cluster.updates == ["update nodename=gpu-001,gpu-002,gpu-003 state=resume"]
