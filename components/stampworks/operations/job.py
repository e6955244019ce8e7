"""Requests to a scheduler and its answers: the same types for every scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from stampworks.plan import Machine

if TYPE_CHECKING:
    from stampworks.jobs import Job as OwnJob

State = Literal["waiting", "running", "ending", "finished", "failed", "cancelled", "stopped", "unknown"]
"""`stopped`: it left a checkpoint and can continue; `unknown`: it has ended without a record."""
AT_WORK = ("waiting", "running", "ending")


@dataclass(frozen=True)
class JobRequest:
    """A program that runs once on each of some nodes, with all their accelerators."""

    name: str
    workload: str
    folder: str
    queue: str
    nodes: int
    exclude: tuple[str, ...]
    """Nodes of the queue that are not used."""
    machine: Machine
    path: str
    """Python path of the programs on a node."""
    program: tuple[str, ...]
    notice_s: int = 0
    """Seconds before the time limit at which the run is warned; 0 means the default."""


@dataclass(frozen=True)
class Job:
    """A run, as far as a scheduler knows it."""

    name: str
    workload: str
    state: State
    id: int | str | None
    """Id by its scheduler: a number on Slurm, team and name on Kubernetes."""
    user: str
    nodes: tuple[str, ...]
    """Nodes of the job; empty while it waits."""
    wanted: int
    since: int | None
    """Start or expected start, in seconds of Unix time."""
    why: str
    """Why it waits, or how it ended."""
    queue: str = ""
    account: str = ""
    submitted: int | None = None
    """Submission, in seconds of Unix time; None if the scheduler does not report it."""
    ended: int | None = None
    gpus: int | None = None
    """Accelerators that it holds or held, or asks for while it waits."""
    exit_code: int | None = None
    place: int | None = None
    """Place of a waiting job in its queue, from 1; None if the scheduler does not report it."""
    hours: float | None = None
    """Hours that it has run, over all tasks of an array; None if unknown."""
    gpu_hours: float | None = None
    task: int | None = None
    """The index of a task of an array, which has the name of its array."""
    tasks: tuple[Job, ...] = ()
    """Tasks of an array, as far as the scheduler lists them separately."""


def together(number: int | str, tasks: Sequence[Job]) -> Job:
    """Return the tasks of an array as one job: active while any task is, and failed if any has."""
    order = ("running", "ending", "waiting", "failed", "cancelled", "finished")
    first = min(tasks, key=lambda task: order.index(task.state) if task.state in order else len(order))
    at_work = first.state in AT_WORK
    held = [task for task in tasks if task.state in ("running", "ending")] if at_work else tasks
    ends = [task.ended for task in tasks if task.ended]
    counts = Counter(task.state for task in tasks)
    said = ", ".join(f"{count} {state}" for state, count in counts.items())
    return replace(
        first,
        id=number,
        task=None,
        tasks=tuple(tasks),
        nodes=tuple(dict.fromkeys(node for task in held for node in task.nodes)),
        since=min((task.since for task in tasks if task.since and task.state != "waiting"), default=first.since),
        ended=max(ends) if ends and not at_work else None,
        gpus=sum(task.gpus or 0 for task in held),
        why=f"{said}: {first.why}" if first.why else said,
        hours=_sum(task.hours for task in tasks),
        gpu_hours=_sum(task.gpu_hours for task in tasks),
        exit_code=max((task.exit_code for task in tasks if task.exit_code is not None), default=None),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum, or None if a value is unknown."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


class JobScheduler(Protocol):
    """Jobs of a scheduler: `jobs` are those of the toolkit, `every_job` all of them."""

    def files(self, wanted: JobRequest) -> dict[str, str]:
        """Return the files of a run that the scheduler needs, by name."""

    def submit(self, wanted: JobRequest, user: str) -> int | str:
        """Submit a run and return its id."""

    def own_files(self, job: OwnJob, workdir: str) -> dict[str, str]:
        """Return the files of a user's job, by name."""

    def submit_own(self, job: OwnJob, secrets: Mapping[str, str], after: Sequence[int | str]) -> int | str:
        """Submit a user's job, which starts when the jobs in `after` have ended, and return its id."""

    def jobs(self) -> tuple[Job, ...]:
        """Return the runs of the toolkit that wait or run."""

    def every_job(self, ended: bool) -> tuple[Job, ...]:
        """Return the jobs of all users; `ended` adds those that the accounting keeps."""

    def cancel(self, job: Job) -> None:
        """End a job; succeed if it has already ended."""

    def taking_none(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the reason for each of these nodes that takes no jobs."""
