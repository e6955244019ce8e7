"""Taking nodes out of service without hurting a job."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence

from stampworks.operations import remote, slurm
from stampworks.operations.errors import OperationError
from stampworks.plan import Roster

REASON = "stampworks: leaves the cluster"
"""The role slurm_controller looks for it: a node that came back with a new disk takes jobs again."""

Progress = Callable[[str], None]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


class BusyError(OperationError):
    """Time was up and jobs still ran; the cluster is as it was before."""


def drain(
    roster: Roster, names: Sequence[str], timeout_minutes: float, progress: Progress, poll_s: float = 1.0
) -> None:
    """Returns once no job runs on the named nodes and none can start there.

    When it cannot get there, for time, for an interrupt or because Slurm stopped answering, the nodes it drained take
    jobs again: a change that failed leaves the cluster as it was.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a node's name")
    known = _known(roster)
    there = [name for name in names if name in known]
    drained = [name for name in there if "drain" not in known[name].states]
    try:
        _set_state(roster, drained, "drain")
        _wait(roster, there, timeout_minutes, progress, poll_s)
    except BaseException:
        with contextlib.suppress(OperationError):
            _set_state(roster, drained, "undrain")
        raise


def _known(roster: Roster) -> dict[str, slurm.Node]:
    try:
        return slurm.nodes(roster)
    except OperationError:
        if _never_configured(roster):
            return {}
        raise


def _never_configured(roster: Roster) -> bool:
    """A head that never got a slurm.conf has run no job: an `up` that failed half-way can still shrink."""
    answer = remote.ask(roster, remote.head(roster).name, ["find", "/etc/slurm", "-name", "slurm.conf"])
    return not answer.strip()


def _set_state(roster: Roster, names: Sequence[str], state: str) -> None:
    if names:
        update = ["scontrol", "update", f"nodename={','.join(names)}", f"state={state}"]
        update += [f"reason={REASON}"] if state == "drain" else []
        remote.ask(roster, remote.head(roster).name, update)


def _wait(roster: Roster, names: Sequence[str], timeout_minutes: float, progress: Progress, poll_s: float) -> None:
    started = time.monotonic()
    while busy := _busy(roster, names):
        if time.monotonic() - started >= timeout_minutes * 60:
            raise _still_busy(busy, timeout_minutes)
        jobs = sorted({job.id for _, job in busy})
        # at every look, for this is also where whoever asked can interrupt the wait
        progress(f"waiting for {_jobs(jobs)} on {', '.join(sorted({name for name, _ in busy}))}")
        time.sleep(poll_s)


def _busy(roster: Roster, names: Sequence[str]) -> list[tuple[str, slurm.Job]]:
    if not names:
        return []
    return [(name, job) for job in slurm.jobs(roster) for name in names if name in job.nodes]


def _still_busy(busy: Sequence[tuple[str, slurm.Job]], timeout_minutes: float) -> BusyError:
    jobs = sorted({job.id for _, job in busy})
    nodes = sorted({name for name, _ in busy})
    lines = [
        f"{', '.join(nodes)} did not become free within {timeout_minutes:g} minutes: nothing was removed, "
        f"the nodes take jobs again",
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
