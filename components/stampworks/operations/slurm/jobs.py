"""Runs as jobs of Slurm."""

from __future__ import annotations

from collections.abc import Sequence

from stampworks.operations import remote
from stampworks.operations.job import Job, JobRequest, State
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm.nodes import TAKES_JOBS
from stampworks.plan import Plan, Roster
from stampworks.schedulers import batch
from stampworks.schedulers import slurm as slurm_files

_SBATCH_S = 30.0
_STATES: dict[str, State] = {
    **dict.fromkeys(("pending",), "waiting"),
    **dict.fromkeys(("running", "configuring", "suspended", "stopped", "signaling", "stage_out"), "running"),
    "completing": "ending",
    "completed": "finished",
    "cancelled": "cancelled",
}
_REASONS = {
    "None": "the scheduler has not looked at it yet",
    "Priority": "others are more urgent, or came first",
    "Resources": "as many nodes are not free now",
    "Dependency": "another job of this run is not through",
    "BeginTime": "it was put back into the queue, and starts again soon",
    "JobHeldAdmin": "a person holds it",
    "JobHeldUser": "its user holds it",
    "JobHoldMaxRequeue": "it failed to start too often, and is held",
    "NodeDown": "a node that it needs is down",
    "PartitionDown": "its queue is closed",
    "PartitionInactive": "its queue is closed",
    "PartitionNodeLimit": "its queue has fewer nodes",
    "PartitionTimeLimit": "its queue does not let jobs run so long",
    "ReqNodeNotAvail": "nodes that it needs take no jobs now: `stampworks status` says why",
    "Reservation": "nodes are reserved, for a proof as a rule",
    "AssocGrpGRES": "its account may hold no more accelerators",
    "AssocGrpGRESMinutes": "its account has used up its accelerators",
    "InvalidAccount": "its user has no account",
    "InvalidQOS": "its priority is not known",
    "QOSNotAllowed": "its user may not ask for this priority",
}


class SlurmJobs:
    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def submit(self, wanted: JobRequest, user: str) -> int:
        """The number of the job, which may wait."""
        argv = remote.as_user(user, ["sbatch", "--parsable", f"{wanted.folder}/{batch.SCRIPT}"])
        answer = remote.ask(self._roster, remote.head(self._roster).name, argv, _SBATCH_S)
        return int(answer.strip().splitlines()[-1].partition(";")[0])

    def files(self, wanted: JobRequest) -> dict[str, str]:
        """What has to lie in the run's folder beforehand."""
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

    def jobs(self) -> tuple[Job, ...]:
        """All runs that Slurm still knows of, the newest job of each."""
        found: dict[str, Job] = {}
        for job in sorted(slurm.queue(self._roster), key=lambda each: each.id):
            workload = job.comment.removeprefix(batch.COMMENT)
            if job.comment.startswith(batch.COMMENT) and workload in ("training", "validation"):
                found[job.name] = _job(job, workload)
        return tuple(found.values())

    def cancel(self, job: Job) -> None:
        """The programs are asked to end; those that do not are ended."""
        remote.ask(self._roster, remote.head(self._roster).name, ["scancel", str(job.id)])

    def taking_none(self, names: tuple[str, ...]) -> dict[str, str]:
        """Those of these nodes that take no jobs now, and why as Slurm says it."""
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


def _job(job: slurm.Queued, workload: str) -> Job:
    state: State = next(
        (_STATES[each] for each in job.states if each in _STATES), "failed"
    )  # flags may stand before it
    if "completing" in job.states:
        state = "ending"
    why = _why(job.reason) if state == "waiting" else ""
    if state == "failed":
        why = {
            "timeout": "its time was up",
            "node_fail": "its first node was lost",
            "preempted": "it made room for a more urgent job",
        }.get(job.states[0], job.states[0].replace("_", " "))
    return Job(job.name, workload, state, job.id, job.user, job.nodes, job.wanted or len(job.nodes), job.started, why)


def _why(reason: str) -> str:
    """Slurm's word for why a job waits, in plain words where they are known."""
    word = reason.partition(",")[0].partition(":")[0]
    return _REASONS.get(word, reason or _REASONS["None"])
