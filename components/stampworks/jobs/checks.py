"""Check a job file against a plan: its requests, and unsatisfiable ones."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stampworks.declaration.errors import AbsentError, Problem
from stampworks.declaration.nodes import spelled
from stampworks.declaration.wording import alternatives, did_you_mean, shown
from stampworks.jobs.forms import VARIABLE_PATTERN, indexes_of, seconds
from stampworks.jobs.model import ALL, JobFile
from stampworks.jobs.reading import JobSource
from stampworks.plan import Group, Plan, Queue
from stampworks.schedulers.batch import NOTICE_MAX_S

ROOT = "root"
RUNS = "runs"
"""The folder of all runs, on the first declared storage."""
OCI_PATTERN = r"(docker://)?[a-z0-9][A-Za-z0-9._:/#-]{0,500}(@sha256:[0-9a-f]{64})?"
SQUASHFS = (".sqsh", ".squashfs", ".sqfs")
# A job sees these from its cluster: a file that sets them would disagree with where it runs.
OURS = (
    *("NODE_RANK", "NNODES", "NODE_NAMES", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    *("GPUS_PER_NODE", "RAILS", "JOB_NAME", "JOB_ID", "JOB_FOLDER", "ARRAY_INDEX", "CHECKPOINT_PATH"),
)


@dataclass(frozen=True)
class Job:
    """A job that fits the plan, with all choices made."""

    file: JobFile
    user: str
    folder: str
    """The folder of its scripts, its log and its workdir, on storage that all nodes see."""
    queue: Queue
    pools: tuple[Group, ...]
    """Usable pools, all with the same machine."""
    without: tuple[str, ...]
    """Pools of the queue that the job does not use."""
    home: str
    """The user's home, on storage that all nodes mount; empty if there is none."""

    @property
    def name(self) -> str:
        """Name of the job in its file."""
        return self.file.name

    @property
    def gpus(self) -> int:
        """Accelerators that it uses on each node."""
        most = self.pools[0].machine.accelerators
        return most if self.file.gpus_per_node == ALL else self.file.gpus_per_node

    @property
    def whole_nodes(self) -> bool:
        """Whether it takes all accelerators of its nodes."""
        return self.file.gpus_per_node == ALL or self.gpus == self.pools[0].machine.accelerators

    @property
    def notice_s(self) -> int:
        """Seconds from the signal to the time limit; 0 if the file has no checkpoint section."""
        return seconds(self.file.checkpoint.grace) if "checkpoint" in self.file.model_fields_set else 0

    @property
    def checkpoints(self) -> str:
        """The folder of its checkpoints, which outlives the job."""
        return in_home(self.file.checkpoint.path, self.home) or f"{self.folder}/checkpoints"

    @property
    def limit_s(self) -> int:
        """Time limit; 0 for none."""
        return seconds(self.file.time_limit)


def folder_name(name: str, user: str) -> str:
    """Return the name of a job's folder. Names of runs and users have no dot, so that folders of two users never
    collide."""
    return f"{name}.{user}"


def pyxis(plan: Plan) -> bool:
    """Whether Slurm starts containers: pyxis is part of the release's hardware."""
    return any(software.name == "pyxis" for software in plan.release.hardware)


def is_folder(image: str) -> bool:
    """Whether an image is a path to an unpacked one, and not a registry name."""
    return image.startswith(("/", "./", "../"))


def problems(source: JobSource, plan: Plan, user: str) -> list[Problem]:
    """Return all findings of the plan about the valid part of a job."""
    found: list[Problem] = []
    for check in _CHECKS:
        iterator = check(source, plan, user)
        while True:
            try:
                found.append(next(iterator))
            except (StopIteration, AbsentError):
                break
    return found


def resolve(source: JobSource, plan: Plan, user: str, runs: str) -> Job:
    """Choose for a job that has no problems."""
    job = source.sound
    queue = _queue(job, plan)
    pools = tuple(_pools(job, plan))
    names = {pool.name for pool in pools}
    without = tuple(name for name in queue.pools if name not in names)
    return Job(job, user, f"{runs}/{folder_name(job.name, user)}", queue, pools, without, home_of(user, plan))


def home_of(user: str, plan: Plan) -> str:
    """Return the user's folder on storage that all nodes mount; empty if there is none.

    Kubernetes has no logins, and the folder is next to the runs: a job's ~ is the same at every start.
    """
    found = next((each for each in plan.users if each.name == user), None)
    if found and plan.scheduler.traits.runs_pods and plan.storage:
        return f"{plan.storage[0].mount}/{RUNS}/.home.{user}"
    return found.home if found else ""


def in_home(path: str, home: str) -> str:
    """Return a path with the home instead of ~; unchanged without a common home."""
    return f"{home}/{path.removeprefix('~/')}" if home and path.startswith("~/") else path


def _queue(job: JobFile, plan: Plan) -> Queue:
    queues = sorted(plan.scheduler.queues, key=lambda each: not each.default)
    if job.queue:
        return next(each for each in queues if each.name == job.queue)
    return next(each for each in queues if not job.pool or job.pool in each.pools)


def _pools(job: JobFile, plan: Plan) -> Iterator[Group]:
    queue = _queue(job, plan)
    yield from (each for each in plan.pools if (each.name == job.pool if job.pool else each.name in queue.pools))


def _place(source: JobSource, plan: Plan, _: str) -> Iterator[Problem]:
    """Queue and pool."""
    job, queues = source.sound, {each.name: each for each in plan.scheduler.queues}
    pools = [each.name for each in plan.pools]
    known_queue, known_pool = not job.queue or job.queue in queues, not job.pool or job.pool in pools
    if not known_queue:
        yield source.problem(
            "queue", f"cluster {plan.name} has no queue {shown(job.queue)}", did_you_mean(job.queue, queues)
        )
    if job.pool in [each.name for each in plan.scheduling_only]:
        yield source.problem("pool", f"pool {job.pool} is for scheduling only: no job can run there", "choose another")
    elif not known_pool:
        yield source.problem(
            "pool", f"cluster {plan.name} has no pool {shown(job.pool)}", did_you_mean(job.pool, pools)
        )
    elif known_queue and job.pool:
        of = [each.name for each in queues.values() if job.pool in each.pools]
        if job.queue and job.queue not in of:
            there = alternatives(list(queues[job.queue].pools), last="and")
            yield source.problem("pool", f"pool {job.pool} is not in queue {job.queue}, which has {there}", _of(of))
        elif not of:
            yield source.problem(
                "pool", f"pool {job.pool} is in no queue", "add it to a queue's pools, and run pulumi up"
            )


def _of(queues: Sequence[str]) -> str:
    return f"it is in queue {alternatives(queues)}" if queues else "it is in no queue"


def _size(source: JobSource, plan: Plan, user: str) -> Iterator[Problem]:
    """Nodes and accelerators."""
    if list(_place(source, plan, user)):
        return
    job = source.sound
    pools = list(_pools(job, plan))
    of = f"pool {job.pool}" if job.pool else f"queue {_queue(job, plan).name}"
    if not pools:
        yield source.problem("queue", f"{of} has no pool whose nodes run jobs", "choose another queue")
        return
    machines = {each.machine.name for each in pools}
    if len(machines) > 1:
        each_of = alternatives([f"{each.name} of {each.machine.name}" for each in pools], last="and")
        yield source.problem("pool", f"{of} has pools of different machines: {each_of}", "name one of them")
        return
    most = max(each.count for each in pools) if plan.scheduler.traits.runs_pods else sum(each.count for each in pools)
    if source.knows("nodes") and job.nodes > most:
        yield source.problem("nodes", f"{of} has {most} nodes, not {job.nodes}", f"ask for 1 to {most}")
    accelerators = pools[0].machine.accelerators
    if source.knows("gpus_per_node") and job.gpus_per_node > accelerators:
        has = f"{accelerators} accelerators" if accelerators else "no accelerators"
        hint = (
            f"ask for 0 to {accelerators}, and for more nodes" if accelerators else "ask for 0, or choose another pool"
        )
        yield source.problem("gpus_per_node", f"a node of {of} has {has}, not {job.gpus_per_node}", hint)


def _account(source: JobSource, plan: Plan, user: str) -> Iterator[Problem]:
    asked, accounts = source.sound.account, [each.name for each in plan.scheduler.accounts]
    declared = next((each for each in plan.users if each.name == user), None)
    if asked and asked not in accounts:
        hint = did_you_mean(asked, accounts) or "leave it out: the cluster declares none"
        yield source.problem("account", f"cluster {plan.name} has no account {shown(asked)}", hint)
    elif asked and declared and asked not in declared.accounts:
        theirs = alternatives(list(declared.accounts)) if declared.accounts else ""
        hint = f"{user} may use {theirs}" if theirs else f"{user} is in no account"
        yield source.problem("account", f"{user} may not use account {asked}", hint)


def _time(source: JobSource, plan: Plan, user: str) -> Iterator[Problem]:
    job = source.sound
    limit_s, told = seconds(job.time_limit), "checkpoint" in job.model_fields_set
    grace_s = seconds(job.checkpoint.grace) if told else 0
    queue_s = 0 if list(_place(source, plan, user)) else 60 * _queue(job, plan).time_limit_minutes
    if queue_s and limit_s > queue_s:
        name = _queue(job, plan).name
        message = f"{job.time_limit} is more than the {queue_s // 60} minutes of queue {name}"
        yield source.problem("time_limit", message, f"take {queue_s // 60}m or less, or another queue")
    shortest = min(filter(None, (limit_s, queue_s)), default=0)
    if grace_s > NOTICE_MAX_S or (shortest and grace_s >= shortest):
        most = min(NOTICE_MAX_S, shortest // 2) if shortest else NOTICE_MAX_S
        why = f"leaves no time of the {shortest} s that the job has" if shortest else "is more than Slurm can be told"
        yield source.problem("checkpoint.grace", f"{job.checkpoint.grace} {why}", f"take {most}s or less")


def _variables(source: JobSource, _: Plan, __: str) -> Iterator[Problem]:
    job = source.sound
    names = list(job.env) if source.knows("env") else []
    for name in names:
        if not re.fullmatch(VARIABLE_PATTERN, name):
            hint = "take letters, digits and '_', not a digit first"
            yield source.problem(spelled(("env", name)), f"{shown(name)} is not the name of a variable", hint)
        elif name in OURS or name.startswith("SLURM_"):
            yield source.problem(f"env.{name}", f"{name} is set by the cluster", "take another name")
    secrets = job.secrets
    for index, secret in enumerate(secrets):
        path = f"secrets[{index}].name"
        if secret.name in OURS or secret.name.startswith("SLURM_"):
            yield source.problem(path, f"{secret.name} is set by the cluster", "take another name")
        elif secret.name in names or secret.name in [each.name for each in secrets[:index]]:
            yield source.problem(path, f"{secret.name} is set twice", "keep one of them")


def _mounts(source: JobSource, plan: Plan, _: str) -> Iterator[Problem]:
    storage = [each.name for each in plan.storage]
    for index, name in enumerate(source.sound.mounts):
        if name not in storage:
            hint = did_you_mean(name, storage) or "it declares none"
            yield source.problem(f"mounts[{index}]", f"cluster {plan.name} has no storage {shown(name)}", hint)


def _checkpoint(source: JobSource, plan: Plan, user: str) -> Iterator[Problem]:
    path = in_home(source.sound.checkpoint.path, home_of(user, plan))
    places = [each.mount for each in plan.storage]
    if path and not any(posixpath.commonpath((path, place)) == place for place in places):
        hint = f"put it below {alternatives(places)}" if places else "declare storage"
        yield source.problem("checkpoint.path", f"{path} is on no storage that all nodes see", hint)


def _image(source: JobSource, plan: Plan, _: str) -> Iterator[Problem]:
    image = source.sound.image
    if not image:
        return
    title = plan.scheduler.traits.title
    if is_folder(image):
        if plan.scheduler.traits.runs_pods:
            yield source.problem("image", f"{title} starts from no file: {shown(image)}", "name an image of a registry")
        elif not pyxis(plan) and image.endswith(SQUASHFS):
            hint = f"unpack it on the head: unsquashfs -d FOLDER {image}"
            yield source.problem("image", "nodes of this cluster have no program that mounts a squashfs", hint)
        return
    if not plan.scheduler.traits.runs_pods and not pyxis(plan):
        message = "nodes of this cluster have no container engine that fetches images"
        yield source.problem(
            "image", message, "unpack it below shared storage, and name that folder: /shared/images/NAME"
        )
    elif not re.fullmatch(OCI_PATTERN, image):
        hint = "write it like nvcr.io/nvidia/pytorch:25.06-py3"
        yield source.problem("image", f"{shown(image)} is not the name of an image", hint)


def _tasks_at_a_time(source: JobSource, plan: Plan, _: str) -> Iterator[Problem]:
    """Refuse a limit on parallel tasks on Kubernetes: Kueue has quotas for queues, not for tasks of an array."""
    tasks, _, limit = source.sound.array.partition("%")
    if not plan.scheduler.traits.runs_pods or not limit or int(limit) >= len(indexes_of(tasks)):
        return
    title, first = plan.scheduler.traits.title, indexes_of(tasks)[0]
    message = f"{title} starts as many tasks as its queue has room for, not {limit} at a time"
    part = f"{first}-{first + int(limit) - 1}"
    yield source.problem("array", message, f"write {tasks}, or {part} and others in jobs that depend on this one")


_CHECKS: tuple[Callable[[JobSource, Plan, str], Iterator[Problem]], ...] = (
    *(_place, _size, _account, _time, _variables, _mounts, _checkpoint, _image, _tasks_at_a_time),
)
