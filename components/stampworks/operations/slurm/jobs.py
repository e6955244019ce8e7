"""Runs as jobs of Slurm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stampworks.jobs import Job as OwnJob
from stampworks.jobs import slurm as own
from stampworks.operations import remote
from stampworks.operations.job import AT_WORK, Job, JobRequest, State, together
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm.nodes import TAKES_JOBS
from stampworks.plan import Plan, Roster
from stampworks.schedulers import batch
from stampworks.schedulers import slurm as slurm_files

_SBATCH_S = 30.0
_HOUR_S = 3600
_WORKLOADS = ("training", "validation")
_STATES: dict[str, State] = {
    **dict.fromkeys(("pending",), "waiting"),
    **dict.fromkeys(("running", "configuring", "suspended", "stopped", "signaling", "stage_out"), "running"),
    "completing": "ending",
    "completed": "finished",
    "cancelled": "cancelled",
}
_REASONS = {
    "None": "the scheduler has not considered it yet",
    "Priority": "other jobs are more urgent, or came first",
    "Resources": "not enough nodes are free now",
    "Dependency": "it waits for another job to end",
    "BeginTime": "it was put back into the queue, and starts again soon",
    "JobHeldAdmin": "a person holds it",
    "JobHeldUser": "its user holds it",
    "JobHoldMaxRequeue": "it failed to start too often, and is held",
    "NodeDown": "a node that it needs is down",
    "PartitionDown": "its queue is closed",
    "PartitionInactive": "its queue is closed",
    "PartitionNodeLimit": "its queue has fewer nodes",
    "PartitionTimeLimit": "its queue does not let jobs run so long",
    "ReqNodeNotAvail": "nodes that it needs take no jobs now: `stampworks status` shows the reason",
    "Reservation": "nodes are reserved, for a proof as a rule",
    "AssocGrpGRES": "its account may hold no more accelerators",
    "AssocGrpGRESMinutes": "its account has used up its accelerators",
    "InvalidAccount": "its user has no account",
    "InvalidQOS": "its priority is not known",
    "QOSNotAllowed": "its user may not ask for this priority",
}


class SlurmJobs:
    """The jobs of a cluster whose scheduler is Slurm."""

    def __init__(self, plan: Plan, roster: Roster) -> None:
        self._plan, self._roster = plan, roster

    def submit(self, wanted: JobRequest, user: str) -> int:
        """The number of the job, which may wait."""
        argv = remote.as_user(user, ["sbatch", "--parsable", f"{wanted.folder}/{batch.SCRIPT}"])
        answer = remote.ask(self._roster, remote.head(self._roster).name, argv, _SBATCH_S)
        return int(answer.strip().splitlines()[-1].partition(";")[0])

    def files(self, wanted: JobRequest) -> dict[str, str]:
        """Return the files that have to be in the run's folder before."""
        machine = wanted.machine
        return batch.files(
            batch.BatchJob(
                name=wanted.name,
                workload=wanted.workload,
                folder=wanted.folder,
                queue=wanted.queue,
                nodes=wanted.nodes,
                exclude=wanted.exclude,
                gres=slurm_files.gres_of(machine) if machine.accelerators else "",
                path=wanted.path,
                program=wanted.program,
                notice_s=wanted.notice_s or batch.NOTICE_S,
                elastic=wanted.workload == "training",
            )
        )

    def own_files(self, job: OwnJob, workdir: str) -> dict[str, str]:
        """Return the files for the folder of a user's job."""
        out = tuple(member.name for member in self._roster.members if member.group in job.without)
        return own.files(job, self._plan, out, workdir)

    def submit_own(self, job: OwnJob, secrets: Mapping[str, str], after: Sequence[int | str]) -> int:  # noqa: ARG002
        """The number of the job; its secrets lie in its folder."""
        order = [f"--dependency=afterok:{':'.join(map(str, after))}", "--kill-on-invalid-dep=yes"] if after else []
        argv = remote.as_user(job.user, ["sbatch", "--parsable", *order, f"{job.folder}/{own.BATCH}"])
        answer = remote.ask(self._roster, remote.head(self._roster).name, argv, _SBATCH_S)
        return int(answer.strip().splitlines()[-1].partition(";")[0])

    def jobs(self) -> tuple[Job, ...]:
        """All runs and jobs of `submit` that Slurm still knows of, the newest of each name and, of jobs, user."""
        found: dict[tuple[str, str], Job] = {}
        for job in self.every_job(ended=False):
            if job.workload:
                found[job.name, job.user if job.workload == own.OWN else ""] = job
        return tuple(found.values())

    def every_job(self, ended: bool) -> tuple[Job, ...]:
        """Return all jobs that Slurm knows, by number; ended ones also from the accounting."""
        known = slurm.queue(self._roster)
        if ended and self._plan.scheduler.accounting:
            there = {job.id for job in known}
            known = (*(job for job in slurm.accounted(self._roster) if job.id not in there), *known)
        tasks: dict[int, list[slurm.Queued]] = {}
        for job in sorted(known, key=lambda each: each.id):
            tasks.setdefault(job.array or job.id, []).append(job)
        places = _places(known)
        found = (_whole(number, [_job(each) for each in jobs]) for number, jobs in sorted(tasks.items()))
        return tuple(replace(job, place=places.get(job.id)) if job.state == "waiting" else job for job in found)

    def cancel(self, job: Job) -> None:
        """Ask the programs to end, and end those that do not."""
        remote.ask(self._roster, remote.head(self._roster).name, ["scancel", str(job.id)])

    def taking_none(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the nodes of these that take no jobs now, with Slurm's reasons."""
        known = slurm.nodes(self._roster)
        found = {name: known.get(name) for name in names}
        return {
            name: (node.reason.text or "+".join(node.states)) if node else "Slurm does not know it"
            for name, node in found.items()
            if node is None or not TAKES_JOBS.issuperset(node.states)
        }


def ask_storage(_: Plan, roster: Roster, user: str, argv: Sequence[str], limit_s: float, given: str) -> str:
    """Ask a node that people log in to: all nodes mount it."""
    return remote.ask(roster, remote.door(roster).name, remote.as_user(user, argv), limit_s, given)


def _places(known: Sequence[slurm.Queued]) -> dict[int | str | None, int]:
    """The place of each waiting job in its queue, from 1: by priority, and then by number."""
    waiting = sorted((job for job in known if "pending" in job.states), key=lambda job: (-(job.priority or 0), job.id))
    found: dict[int | str | None, int] = {}
    ahead: Counter[str] = Counter()
    for job in waiting:
        ahead[job.queue] += 1
        found[job.array or job.id] = ahead[job.queue]
    return found


def _whole(number: int, jobs: list[Job]) -> Job:
    """Return a job, or the tasks of an array as one; scancel knows each by the array's number and its index."""
    if len(jobs) == 1 and jobs[0].task is None:
        return replace(jobs[0], id=number)
    return together(number, [job if job.task is None else replace(job, id=f"{number}_{job.task}") for job in jobs])


def _job(job: slurm.Queued) -> Job:
    workload = job.comment.removeprefix(batch.COMMENT) if job.comment.startswith(batch.COMMENT) else ""
    state: State = next((_STATES[each] for each in job.states if each in _STATES), "failed")  # flags may precede it
    if "completing" in job.states:
        state = "ending"
    why = _why(job.reason) if state == "waiting" else ""
    if state == "failed":
        why = {
            "timeout": "its time limit was reached",
            "node_fail": "its first node was lost",
            "preempted": "it was preempted by a more urgent job",
        }.get(job.states[0], "" if job.exit_code else job.states[0].replace("_", " "))
    over = state not in AT_WORK
    hours = _hours(job, state)
    return Job(
        name=job.name,
        workload=workload if workload in (*_WORKLOADS, own.OWN) else "",
        state=state,
        id=job.id,
        user=job.user,
        nodes=job.nodes,
        task=job.task if job.array else None,
        wanted=job.wanted or len(job.nodes),
        since=job.started,
        why=why or (f"exit code {job.exit_code}" if state == "failed" and job.exit_code else ""),
        queue=job.queue,
        account=job.account,
        submitted=job.submitted,
        ended=job.ended if over else None,
        gpus=job.gpus,
        exit_code=job.exit_code if over else None,
        hours=hours,
        gpu_hours=None if hours is None or job.gpus is None else hours * job.gpus,
    )


def _hours(job: slurm.Queued, state: State) -> float | None:
    """Return the hours since the last start of a job; 0 for a job that never started."""
    if state == "waiting" or not job.started:
        return 0.0
    until = (job.ended if state not in AT_WORK else None) or time.time()
    return max(0.0, until - job.started) / _HOUR_S


def _why(reason: str) -> str:
    """Return why a job waits: a sentence for known reasons of Slurm, otherwise Slurm's word."""
    word = reason.partition(",")[0].partition(":")[0]
    return _REASONS.get(word, reason or _REASONS["None"])
