"""Runs as JobSets of Kubernetes, which Kueue admits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stampworks.jobs import Job as OwnJob
from stampworks.jobs import pods
from stampworks.operations import remote
from stampworks.operations.errors import InputError, OperationError
from stampworks.operations.job import AT_WORK, Job, JobRequest, State, together
from stampworks.operations.kubernetes import client as kubernetes
from stampworks.operations.kubernetes import door, user_door
from stampworks.operations.kubernetes import nodes as kubernetes_nodes
from stampworks.operations.kubernetes import status as kubernetes_status
from stampworks.plan import WORKLOADS_IMAGE, Machine, Plan, Roster, User
from stampworks.schedulers import addons, jobset
from stampworks.schedulers import kubernetes as scheduling
from stampworks.schedulers.batch import NOTICE_S
from stampworks.schedulers.identity import USER, runtime_name
from stampworks.schedulers.kubernetes import QUEUE_LABEL
from stampworks.schedulers.objects import count_at, maps_at, text_at
from stampworks.schedulers.workload import EFA

_KIND = "jobsets.jobset.x-k8s.io"
_BESIDE = {"trainjob.trainer.kubeflow.org": ("trainingruntimes.trainer.kubeflow.org",)}
"""Objects that are printed with a kind; a ConfigMap always is."""
_GONE_S = 60
_CREATED_S = 120
MANIFEST = "jobset.json"
"""File in the folder of a user's job: its JobSet as submitted, or that of the first task of an array."""
_OF_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_NOT_STARTED = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
"""The kubelet's reasons why a container may wait for ever."""
_ENDED: dict[str, State] = {"Completed": "finished", "Failed": "failed"}


class KubernetesJobs:
    """The jobs of a cluster whose scheduler is Kubernetes."""

    def __init__(self, plan: Plan, roster: Roster) -> None:
        self._plan, self._roster = plan, roster
        self._server = kubernetes.KubernetesApi.of(plan, roster)

    def submit(self, wanted: JobRequest, user: str) -> str:
        """Submit a job, after the remains of an earlier attempt are removed; return its id, with its team."""
        of = pods_of(self._plan, self._roster, wanted, user)
        self._make_room(of.team, wanted.name)
        self._server.said(["create", "--filename=-"], json.dumps(jobset.manifest(of)))
        return f"{of.team}/{wanted.name}"

    def files(self, wanted: JobRequest) -> dict[str, str]:
        """Return the files that must be in the run's folder beforehand."""
        return {jobset.POD: jobset.script(pods_of(self._plan, self._roster, wanted, "root"))}

    def own_files(self, job: OwnJob, workdir: str) -> dict[str, str]:  # noqa: ARG002
        """Return the files for the folder of a user's job, its JobSet among them."""
        of = self._own(job)
        return {**pods.files(job, self._plan, of), MANIFEST: json.dumps(pods.manifests(job, of)[0], indent=2) + "\n"}

    def submit_own(self, job: OwnJob, secrets: Mapping[str, str], after: Sequence[int | str]) -> str:  # noqa: ARG002
        """Create the JobSet, or one for each task, and the Secret, which is deleted with them. Return the team and the
        name."""
        of = self._own(job)
        self._make_room(of.team, of.name, *self._tasks_of(of.team, of.name, job.user))
        secret = pods.secret_name(of.name)
        # a user may delete a secret but not read it, which kubectl would do to wait
        gone = ["delete", "secret", secret, f"--namespace={of.team}", "--ignore-not-found", "--wait=false"]
        self._server.said(gone)
        whole = pods.manifests(job, of)
        names = [each["metadata"]["name"] for each in whole]
        made = ["create", "--filename=-", "--output=jsonpath={.metadata.uid}{'\\n'}"]
        text, limit_s = json.dumps({"apiVersion": "v1", "kind": "List", "items": whole}), _CREATED_S + len(whole)
        doomed = names if job.file.array else []  # some of its tasks may have been created
        try:
            uids = self._server.said(made, text, limit_s).split()
            doomed = names  # without its secrets its pods would wait forever and hold their nodes
            if secrets:
                owners = dict(zip(names, uids, strict=True))
                self._server.said(["create", "--filename=-"], json.dumps(pods.secret(job, of, dict(secrets), owners)))
        except BaseException:
            if doomed:
                where = (f"--namespace={of.team}", "--wait=false", "--ignore-not-found")
                self._server.said(["delete", _KIND, *doomed, *where], limit_s=limit_s)
            raise
        return f"{of.team}/{of.name}"

    def _tasks_of(self, team: str, name: str, user: str) -> list[str]:
        """Return the JobSets of an earlier array of this user. Any member of the team may have written that label."""
        found = self._server.listed(_KIND, f"--namespace={team}", f"--selector={pods.ARRAY}={name}")
        return [_of(each, "name") for each in found if text_at(each, "metadata", "annotations", USER) == user]

    def _own(self, job: OwnJob) -> jobset.PodJob:
        """Return the pods of a user's job: in the namespace of its account, else of the user's first account."""
        machine = job.pools[0].machine
        out = tuple(member.name for member in self._roster.members if member.group in job.without)
        wanted = JobRequest(job.name, "job", job.folder, job.queue.name, job.file.nodes, out, machine, "", ())
        of = pods.podjob(job, self._plan, pods_of(self._plan, self._roster, wanted, job.user))
        return replace(of, team=job.file.account or of.team, without=job.without)

    def _make_room(self, team: str, name: str, *tasks: str) -> None:
        """Delete the JobSets of an earlier attempt, and wait for their pods to end."""
        gone = ["delete", _KIND, name, *tasks, f"--namespace={team}", "--ignore-not-found", "--cascade=foreground"]
        try:
            self._server.said([*gone, f"--timeout={_GONE_S}s"])
        except kubernetes.RefusedError as error:
            if "timed out" not in str(error):
                raise
            left = f"pods of the earlier attempt of {name} have not ended within {_GONE_S} s"
            raise OperationError(left, "their nodes may be lost: see stampworks status, and submit it again") from error

    def every_job(self, ended: bool) -> tuple[Job, ...]:  # noqa: ARG002
        """Return all jobs, including workloads that were not submitted by the toolkit."""
        ours = self.jobs()
        ids = {each.id for job in ours for each in (job, *job.tasks)}
        gangs = kubernetes_status.status(self._plan, self._roster).gangs
        return (*ours, *(_of_gang(gang) for gang in gangs if f"{gang.team}/{gang.name}" not in ids))

    def jobs(self) -> tuple[Job, ...]:
        """All runs that Kubernetes still knows of."""
        kinds = f"{_KIND},jobs.batch"
        items = [
            each
            for where in kubernetes_status.namespaces(self._plan, self._roster)
            for each in self._server.listed(kinds, where, f"--selector={jobset.WORKLOAD}")
        ]
        found = [each for each in items if each["kind"] == "JobSet"]
        through = {_owner(each) for each in items if each["kind"] == "Job" and _through(each)}
        known = kubernetes_status.status(self._plan, self._roster).gangs if found else ()
        gangs = {(gang.team, gang.name): gang for gang in known}
        keys = [(_of(each, "namespace"), _of(each, "name")) for each in found]
        made = [_job(each, gangs.get(key), key in through) for key, each in zip(keys, found, strict=True)]
        stuck = self._stuck() if any(each.state == "running" for each in made) else {}
        made = [
            replace(each, why=stuck[key]) if each.state == "running" and key in stuck else each
            for key, each in zip(keys, made, strict=True)
        ]
        return _in_arrays(made, [text_at(each, "metadata", "labels", pods.ARRAY) for each in found])

    def _stuck(self) -> dict[tuple[str, str], str]:
        """Return why pods with assigned nodes do not start, by team and run: for example, an image may not exist."""
        found = {}
        for where in kubernetes_status.namespaces(self._plan, self._roster):
            for pod in self._server.listed("pods", where, f"--selector={_OF_JOBSET}"):
                for container in maps_at(pod, "status", "containerStatuses"):
                    if text_at(container, "state", "waiting", "reason") in _NOT_STARTED:
                        why = " ".join(text_at(container, "state", "waiting", "message").split())
                        reason = f"{text_at(pod, 'spec', 'nodeName')}: its pod does not start: {why}"
                        found[_of(pod, "namespace"), text_at(pod, "metadata", "labels", _OF_JOBSET)] = reason
        return found

    def cancel(self, job: Job) -> None:
        """Ask the programs to end, and end those that do not. Delete the object that created the JobSet, because it
        would create another, and objects printed with it. Ended tasks of an array stay."""
        team, _, name = str(job.id).partition("/")
        where = (f"--namespace={team}", "--wait=false", "--cascade=foreground")
        if tasks := [str(task.id).partition("/")[2] for task in job.tasks if task.state in AT_WORK]:
            self._server.said(["delete", _KIND, *tasks, "--ignore-not-found", *where], limit_s=_CREATED_S + len(tasks))
            return
        there = self._server.listed(_KIND, f"--namespace={team}")
        kind, whole = next((_made_by(each) for each in there if _of(each, "name") == name), (_KIND, name))
        self._server.said(["delete", kind, whole, *where])
        runtime = runtime_name(whole, next((user.uid for user in self._plan.users if user.name == job.user), 0))
        beside = [("configmaps", whole), *((each, runtime) for each in _BESIDE.get(kind, ()))]
        for each, called in beside:
            only = (f"--field-selector=metadata.name={called}", kubernetes.OURS_ONLY)
            self._server.said(["delete", each, *only, *where])

    def taking_none(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the nodes of these that take no pods now, and why."""
        nodes = self._server.nodes()
        found = {}
        for name in names:
            node = nodes.get(name)
            if node is None:
                found[name] = "Kubernetes does not know it"
            elif reason := kubernetes_nodes.held(node):
                found[name] = f"held: {reason.text}"
            elif not kubernetes.ready(node):
                found[name] = "it is not ready"
        return found


def pods_of(plan: Plan, roster: Roster, wanted: JobRequest, user: str) -> jobset.PodJob:
    """Return the pods of a run, whichever kind of object it becomes."""
    declared = next((each for each in plan.users if each.name == user), None)
    out = {member.group for member in roster.members if member.name in wanted.exclude}
    queue = next(each for each in plan.scheduler.queues if each.name == wanted.queue)
    among = [pool for pool in plan.pools if pool.machine == wanted.machine]
    levels = scheduling.level_labels(plan) if all(pool.rails for pool in among) else ()
    devices = _devices(plan, wanted)
    return jobset.PodJob(
        name=wanted.name,
        workload=wanted.workload,
        team=_team(plan, declared),
        user=user,
        uid=declared.uid if declared else 0,
        groups=tuple(team.gid for team in plan.teams if declared and team.name in declared.groups),
        folder=wanted.folder,
        queue=wanted.queue,
        priority=queue.priority,
        nodes=wanted.nodes,
        without=tuple(sorted(out)),
        accelerators=wanted.machine.accelerators,
        level=levels[-1] if levels else "",
        image=plan.scheduler.workloads_image or WORKLOADS_IMAGE,
        claims=scheduling.claims(plan),
        read_only=() if plan.scheduler.workloads_image else (scheduling.PROGRAMS_PATH,),
        path=wanted.path,
        program=wanted.program,
        notice_s=wanted.notice_s or NOTICE_S,
        devices=devices,
        environment=jobset.of_fabric(plan.fabric.kind) if devices else {},
        room=_room(wanted.machine),
        elastic=wanted.workload == "training",
    )


def ask_storage(plan: Plan, roster: Roster, user: str, argv: Sequence[str], limit_s: float, given: str) -> str:
    """Ask a pod if the nodes have no programs of the toolkit, and else a node: both mount the storage. A user asks her
    own pod."""
    if kubernetes.config_of(roster):
        return user_door.ask(plan, roster, argv, limit_s, given)
    if not plan.scheduler.workloads_image:
        return remote.ask(roster, remote.door(roster).name, remote.as_user(user, argv), limit_s, given)
    uid = next((each.uid for each in plan.users if each.name == user), 0)
    return door.ask(plan, uid, argv, limit_s, given)


def _team(plan: Plan, user: User | None) -> str:
    """Return the team of a user; a user outside of the plan is root."""
    if user and user.accounts:
        return user.accounts[0]
    if user and plan.scheduler.accounts:
        what = f"{user.name} has no account, and so no team whose nodes a run could use"
        raise InputError(what, f"write accounts: [{plan.scheduler.accounts[0].name}] at the user, and run pulumi up")
    return min(team.name for team in scheduling.teams(plan))  # the order of accounts has no meaning


def _devices(plan: Plan, wanted: JobRequest) -> dict[str, str]:
    """Return the devices of the fabric, if a plugin offers them under a usual or planned name: a single device stands
    for all NICs."""
    rails = max((pool.rails or 0 for pool in plan.pools if pool.machine == wanted.machine), default=0)
    if plan.fabric.kind == "efa":
        return {EFA: str(rails)} if rails else {}
    shared = addons.shared_nics(plan)
    return {shared: "1"} if rails and shared else {}


def _room(machine: Machine) -> dict[str, str]:
    """Return requests for most of a node, so that no pods without accelerators join the run; the rest is for the node's
    own pods. A simulated node has no cores of its own."""
    amounts = (("cpu", machine.cpus, ""), ("memory", machine.memory_mib, "Mi"))
    return {name: f"{most * 4 // 5}{unit}" for name, most, unit in amounts if most and not machine.simulated}


def _of(each: Any, field: str) -> str:
    return text_at(each, "metadata", field)


def _made_by(made: Any) -> tuple[str, str]:
    """Return kind and name of the object that owns a JobSet, or the JobSet's own. Only known kinds count: an owner can
    be forged, and would be deleted."""
    for each in maps_at(made, "metadata", "ownerReferences"):
        group = text_at(each, "apiVersion").partition("/")[0]
        kind = f"{text_at(each, 'kind').lower()}.{group}"
        if each.get("controller") is True and kind in _BESIDE and each.get("name") == _of(made, "name"):
            return kind, _of(made, "name")
    return _KIND, _of(made, "name")


def _owner(job: Any) -> tuple[str, str]:
    return _of(job, "namespace"), text_at(job, "metadata", "labels", _OF_JOBSET)


def _through(job: Any) -> bool:
    """Return whether its first program has succeeded: the rest waits for pods of nodes that no longer answer."""
    return kubernetes.is_true(job, "SuccessCriteriaMet")


def _job(found: Any, gang: kubernetes_status.Gang | None, through: bool) -> Job:
    """Return the job of a JobSet of any shape: members of a team may create one with our label."""
    state: State = _ENDED.get(text_at(found, "status", "terminalState"), "waiting")
    if _of(found, "deletionTimestamp"):
        state = "ending"
    elif through:
        state = "finished"
    elif state == "waiting" and gang:
        state = "running" if gang.state == "running" else "waiting"
    return Job(
        name=text_at(found, "metadata", "annotations", pods.NAME) or _of(found, "name"),
        workload=text_at(found, "metadata", "labels", jobset.WORKLOAD),
        state=state,
        id=f"{_of(found, 'namespace')}/{_of(found, 'name')}",
        user=text_at(found, "metadata", "annotations", USER),
        nodes=gang.nodes if gang and state == "running" else (),
        wanted=sum(map(_pods, maps_at(found, "spec", "replicatedJobs"))),
        since=gang.since if gang and state == "running" else None,
        why=gang.why if gang and state == "waiting" else "" if state != "failed" else _why(found),
        queue=text_at(found, "metadata", "labels", QUEUE_LABEL),
        account=_of(found, "namespace"),
        submitted=_seconds(_of(found, "creationTimestamp")),
        task=int(task) if (task := text_at(found, "metadata", "annotations", pods.TASK)[:9]).isdecimal() else None,
    )


def _in_arrays(found: Sequence[Job], arrays: Sequence[str]) -> tuple[Job, ...]:
    """Return jobs, with the tasks of an array as one; their labels identify arrays."""
    tasks: dict[tuple[str, str, str], list[Job]] = {}
    for job, array in zip(found, arrays, strict=True):
        is_task = array and job.task is not None
        tasks.setdefault((job.account, array if is_task else str(job.id), job.user), []).append(job)
    return tuple(
        together(f"{team}/{name}", sorted(jobs, key=lambda job: job.task or 0)) if name in arrays else jobs[0]
        for (team, name, _), jobs in tasks.items()
    )


def _of_gang(gang: kubernetes_status.Gang) -> Job:
    """A gang that was not submitted here."""
    name = f"{gang.team}/{gang.name}"
    job = Job(gang.name, "", gang.state, name, "", gang.nodes, gang.pods, gang.since, gang.why)
    return replace(job, queue=gang.queue, account=gang.team)


def _seconds(when: str) -> int | None:
    """A time as Kubernetes writes it, in seconds of Unix time."""
    try:
        return int(datetime.fromisoformat(when).timestamp())
    except ValueError:
        return None


def _pods(job: Any) -> int:
    """Return the number of pods that run at a time."""
    at_a_time = count_at(job, "template", "spec", "parallelism", otherwise=1)
    return count_at(job, "replicas", otherwise=1) * at_a_time


def _why(found: Any) -> str:
    failed = kubernetes.conditions(found).get("Failed", {})
    if failed.get("reason") == "FailJobSetFailurePolicyAction":
        return "a program ended with an error"
    return text_at(failed, "message")
