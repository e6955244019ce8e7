"""Nodes of a Slurm in and out of service: holders of nodes, and their running jobs."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence

from stampworks.operations import remote
from stampworks.operations.drain import DRAINED, WHOSE, BusyError, Progress, check_names, not_returned
from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.operations.ground import NodeStanding
from stampworks.operations.slurm import client as slurm
from stampworks.plan import Plan, Roster
from stampworks.text.reasons import DrainReason, written

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_OUT = {"drain", "down", "fail"}
"""States from which Slurm resumes a node on request."""
# A node in any other state takes no new job; this includes states that are not known here.
TAKES_JOBS = frozenset(
    {"idle", "allocated", "mixed", "completing", "planned", "reserved", "cloud", "dynamic_norm", "powered_up"}
)


def drain(plan: Plan, roster: Roster, names: Sequence[str], reason: DrainReason) -> None:
    """Drain nodes of the plan; their jobs continue. Replace an earlier reason."""
    check_nodes(plan, roster, names, slurm.nodes(roster))
    hold(roster, dict.fromkeys(names, reason))


def give_back(plan: Plan, roster: Roster, names: Sequence[str], force: bool = False) -> None:
    """Resume all of these nodes or none. Nodes that the toolkit holds need force."""
    known = slurm.nodes(roster)
    check_nodes(plan, roster, names, known)
    out = [name for name in dict.fromkeys(names) if _OUT.intersection(known[name].states)]
    held = {name: known[name].reason for name in out if known[name].reason.by in WHOSE}
    if held and not force:
        raise not_returned(held)
    _set_state(roster, out, "resume")
    slurm.answered(roster, out)


def held(roster: Roster, names: Sequence[str]) -> dict[str, DrainReason | None]:
    """Return the nodes that Slurm knows, each with the reason and author of its drain."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a node")
    known = _known(roster, names)
    return {name: known[name].reason if "drain" in known[name].states else None for name in names if name in known}


def wait_until_free(
    roster: Roster,
    names: Sequence[str],
    timeout_minutes: float,
    progress: Progress,
    poll_s: float = 1.0,
    else_: str = DRAINED,
) -> None:
    """Wait until no job runs on these nodes. `else_` is the hint after the time limit."""
    started = time.monotonic()
    while busy := _busy(roster, names):
        if time.monotonic() - started >= timeout_minutes * 60:
            raise _still_busy(busy, timeout_minutes, else_)
        jobs = sorted({job.id for _, job in busy})
        # Report at every look: here the caller can interrupt the wait.
        progress(f"waiting for {_jobs(jobs)} on {', '.join(sorted({name for name, _ in busy}))}")
        time.sleep(poll_s)


def check_nodes(plan: Plan, roster: Roster, names: Sequence[str], known: Mapping[str, slurm.SlurmNode]) -> None:
    """Refuse names that are no workers of the plan or of pools whose nodes the cloud names."""
    pools = {pool.name for pool in plan.pools}
    nodes = {node.name for pool in plan.pools for node in pool.nodes}
    check_names(plan, names, nodes | {member.name for member in roster.members if member.group in pools})
    if missing := [name for name in names if name not in known]:
        raise InputError(f"Slurm does not know {missing[0]} yet", "`pulumi up` adds it to the cluster")


def _known(roster: Roster, names: Iterable[str]) -> dict[str, slurm.SlurmNode]:
    try:
        return slurm.nodes(roster)
    except OperationError:
        if _configured(roster):
            raise
    _expect_no_steps(roster, names)
    return {}


def _configured(roster: Roster) -> bool:
    """A head without slurm.conf schedules nothing: it never did, or it has just got a new disk."""
    traces = ["-name", "slurm.conf"]
    return bool(remote.ask(roster, remote.head(roster).name, ["find", "/etc/slurm", *traces]).strip())


def _expect_no_steps(roster: Roster, names: Iterable[str]) -> None:
    """Raise UnknownError if job steps run on nodes and no scheduler can be asked. Jobs continue without a head."""
    there = {member.name for member in roster.members}
    running = [name for name in names if name in there and _runs_steps(roster, name)]
    if running:
        raise UnknownError(
            f"jobs run on {', '.join(running)}, and the head runs no scheduler that could wait for them",
            "undo the change of the pool, and make it again after a `pulumi up`, which gives the head its scheduler",
        )


def _runs_steps(roster: Roster, node: str) -> bool:
    """Return whether a job step runs on the node. Slurm's infinite process, which only keeps the control groups, does
    not count."""
    code, found, said = remote.hear(roster, node, ["pgrep", "-x", "-a", "slurmstepd"], remote.TIMEOUT_S)
    if code > 1:
        raise UnknownError(f"{node}: pgrep ended with exit code {code}: {said}", f"look there: stampworks ssh {node}")
    return any(not line.endswith(" infinity") for line in found.splitlines())


def hold(roster: Roster, reasons: Mapping[str, DrainReason]) -> None:
    """Drain nodes with a reason each. The caller decides whose drains may be replaced."""
    for reason in dict.fromkeys(reasons.values()):
        names = [name for name, its in reasons.items() if its == reason]
        # scontrol removes a quotation mark at either end, which could be part of the reason
        _set_state(roster, names, "drain", f'reason="{written(reason)}"')


def requeue(roster: Roster, names: Sequence[str]) -> None:
    """Requeue jobs on these nodes; jobs that do not allow it run to their end."""
    for number in sorted({job.id for _, job in _busy(roster, names)}):
        with contextlib.suppress(OperationError):
            remote.ask(roster, remote.head(roster).name, ["scontrol", "requeue", str(number)])


def give_back_own(roster: Roster, names: Iterable[str]) -> None:
    """Resume nodes that still have the toolkit's reason: a user may have given another one meanwhile."""
    known = slurm.nodes(roster)
    _set_state(roster, [name for name in names if name in known and known[name].reason.by == "stampworks"], "undrain")


def _set_state(roster: Roster, names: Sequence[str], state: str, *more: str) -> None:
    if names:
        update = ["scontrol", "update", f"nodename={','.join(names)}", f"state={state}", *more]
        remote.ask(roster, remote.head(roster).name, update)


def _busy(roster: Roster, names: Sequence[str]) -> list[tuple[str, slurm.SlurmJob]]:
    if not names:
        return []
    return [(name, job) for job in slurm.jobs(roster) for name in names if name in job.nodes]


def _still_busy(busy: Sequence[tuple[str, slurm.SlurmJob]], timeout_minutes: float, else_: str) -> BusyError:
    jobs = sorted({job.id for _, job in busy})
    nodes = sorted({name for name, _ in busy})
    lines = [
        f"{', '.join(nodes)} did not become free within {timeout_minutes:g} minutes: {else_}",
        *(
            f"  {name}: job {job.id} of {job.user}"
            for name, job in sorted(busy, key=lambda pair: (pair[0], pair[1].id))
        ),
    ]
    return BusyError(
        "\n".join(lines),
        f"wait for {_jobs(jobs)}, or cancel: stampworks ssh head -- scancel {' '.join(map(str, jobs))}; "
        "scheduler.drain_timeout_minutes says how long to wait",
    )


def _jobs(numbers: Sequence[int]) -> str:
    return f"job{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def busy_nodes(jobs: Sequence[slurm.SlurmJob]) -> dict[str, str]:
    """Return the nodes on which jobs run, with a sentence about each."""
    return {name: f"job {job.id} runs on it" for job in jobs for name in job.nodes}


def standing(node: slurm.SlurmNode, busy: str) -> NodeStanding:
    """Return whether a node runs jobs and takes new ones."""
    held = node.reason if "drain" in node.states else None
    return NodeStanding(busy, held, out_of_order(node), "not_responding" in node.states)


def out_of_order(node: slurm.SlurmNode) -> str:
    """Return the reason why a node takes no jobs; empty for none."""
    if TAKES_JOBS.issuperset(node.states):
        return ""
    if TAKES_JOBS.issuperset({*node.states} - {"not_responding"}):  # its old reason no longer counts
        return "it does not answer Slurm"
    states = "+".join(state for state in node.states if state not in TAKES_JOBS)
    return f"{states}: {node.reason.text}" if node.reason.text else states
