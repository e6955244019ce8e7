"""Training and validation as jobs on a running cluster: submitted, listed, followed, cancelled."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from stampworks.operations import run_options, runs
from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.operations.job import AT_WORK, Job, JobRequest, JobScheduler, State
from stampworks.operations.on_head import RUN
from stampworks.operations.qualify import PROGRAMS, PYTHON, PYTHON_OF_IMAGE
from stampworks.operations.run import queue_of
from stampworks.operations.schedulers import port_of
from stampworks.operations.users import expect_user
from stampworks.physics.layouts import fitting, misfit
from stampworks.plan import Group, Plan, Queue, Roster
from stampworks.schedulers.batch import NOTICE_MAX_S
from stampworks.schedulers.kubeflow import OPTIONS
from stampworks.text.names import fold

Workload = Literal["training", "validation"]
WORKLOADS: tuple[Workload, ...] = ("training", "validation")
OWN = "job"
"""The workload of a job of a user."""
STOPPED = 75
"""Exit status of a run that has saved its state and can continue (EX_TEMPFAIL)."""
NAME_PATTERN = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
DERIVED = ("cluster", "peak_tflops", "price", "ranks", "programs", "notice_s")
"""Options that follow from the place of a run: they may differ when it continues."""
_SIGNALLED = (130, 137, 143)
"""Exit codes of a program that INT, KILL or TERM has ended."""
_POLL_S, _BACK_S = 1.0, 5.0


class UsedError(OperationError):
    """The name belongs to an active run, or to a run with other options."""


@dataclass(frozen=True)
class RunRequest:
    """Run as it was requested, before any check."""

    workload: Workload
    name: str
    nodes: int = 0
    """0 means all of them."""
    pool: str = ""
    """Pool of the run; by default the pools of the default queue."""
    user: str = "root"
    file: str = ""
    """Content of a JSON file of options."""
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedRun:
    """Run to submit, checked as far as that is possible before."""

    wanted: JobRequest
    user: str
    options: dict[str, Any]
    warnings: tuple[str, ...]
    resumes: bool


@dataclass(frozen=True)
class Piece:
    """News of a run since the last look."""

    job: Job
    log: str
    events: str


def prepare(plan: Plan, roster: Roster, asked: RunRequest) -> CheckedRun:
    """Changes nothing."""
    wanted, options, there = wanted_of(plan, roster, asked)
    scheduler = of_cluster(plan, roster)
    resumes = _check_free(plan, roster, scheduler, wanted, options)
    warnings = _warnings(plan, scheduler, there, wanted)
    return CheckedRun(wanted, asked.user, options | cluster_options(plan, roster, there), warnings, resumes)


def wanted_of(plan: Plan, roster: Roster, asked: RunRequest) -> tuple[JobRequest, dict[str, Any], tuple[str, ...]]:
    """Return the wanted job, the options of its programs, and its possible nodes; no scheduler is asked."""
    _check_name(asked.name)
    folder = f"{runs.folder_of_all(plan)}/{asked.name}"
    pool, user = asked.pool, asked.user
    queue = queue_of(plan, pool)
    groups = [group for group in plan.pools if (group.name == pool if pool else group.name in queue.pools)]
    if len({group.machine for group in groups}) > 1:
        machines = ", ".join(f"{group.name} of {group.machine.name}" for group in groups)
        raise InputError(f"queue {queue.name} has pools of different machines: {machines}", "choose one: --pool POOL")
    names = {group.name for group in groups}
    there = tuple(member.name for member in roster.members if member.group in names)
    of = f"pool {pool}" if pool else f"queue {queue.name}"
    nodes = asked.nodes or len(there)
    if not there or nodes > len(there):
        hint = f"ask for 1 to {len(there)}" if there else "`pulumi up` starts missing nodes"
        raise InputError(f"{of} has {len(there) or 'no'} nodes now{f', not {nodes}' if there else ''}", hint)
    largest = max(Counter(member.group for member in roster.members if member.group in names).values())
    if plan.scheduler.traits.runs_pods and nodes > largest:
        why = f"{of} has {len(there)} nodes in several pools, and on {plan.scheduler.traits.title} a run is in one"
        raise InputError(f"{why}: none has {nodes} now", f"ask for 1 to {largest}")
    expect_user(plan, user)
    options = _options(plan, groups[0], asked, folder, nodes)
    _check_notice(options.get("notice_s", 0), queue)
    programs = [str(program) for program in options.pop("programs", ())]
    wanted = JobRequest(
        name=asked.name,
        workload=asked.workload,
        folder=folder,
        queue=queue.name,
        nodes=nodes,
        exclude=tuple(
            member.name for member in roster.members if member.group in queue.pools and member.name not in there
        ),
        machine=groups[0].machine,
        path=PROGRAMS,
        program=_program(plan, asked.workload, folder, programs),
        notice_s=options.get("notice_s", 0),
    )
    return wanted, options, there


def submit(plan: Plan, roster: Roster, run: CheckedRun) -> int | str:
    """Submit a run, and return the scheduler's id of the job."""
    wanted, scheduler = run.wanted, of_cluster(plan, roster)
    told = {"version": 1, "workload": wanted.workload, "nodes": wanted.nodes, "user": run.user, "options": run.options}
    files = {RUN: as_text(told), OPTIONS: as_text(run.options), **scheduler.files(wanted)}
    folder, _, name = wanted.folder.rpartition("/")
    runs.write(plan, roster, folder, name, run.user, files)
    return scheduler.submit(wanted, run.user)


def listed(plan: Plan, roster: Roster, ended: bool = False) -> tuple[Job, ...]:
    """Return every job: active ones first, then ended ones, newest first.

    Runs and jobs of `submit` are listed while their folders exist; with `ended`, others while the accounting keeps
    them.
    """
    known = of_cluster(plan, roster).every_job(ended)
    newest = {_key(job): job for job in known if job.workload}
    of_name = Counter((job.name, job.id) for job in newest.values())
    folders: dict[str, Any] = (
        runs.all_runs(plan, roster, runs.folder_of_all(plan)).get("runs", {}) if plan.storage else {}
    )
    several = {name for (name, _), number in of_name.items() if number > 1}
    folders = {name: found for name, found in folders.items() if name not in several}
    left = [_of_folder(name, found, newest.get(_key_of_folder(name))) for name, found in folders.items()]
    at_work = [_without(job, folders.get(job.name)) for job in known if job.state in AT_WORK]
    told = [job for job in left if job and job.state not in AT_WORK]
    ids = {job.id for job in told if job.id is not None}
    lost = [job for job in reversed(known) if job.state not in AT_WORK and job.id not in ids]
    return (*at_work, *told, *lost)


def cancel(plan: Plan, roster: Roster, name: str) -> Job:
    """Cancel a run and return it. Its checkpoints stay, so that it can continue later."""
    scheduler = of_cluster(plan, roster)
    job = _found(plan, roster, name)
    if job.state in AT_WORK:
        scheduler.cancel(job)
    return job


def follow(plan: Plan, roster: Roster, name: str, live: bool) -> Iterator[Piece]:
    """Yield the output of a run so far; live, also further output until its end, with pauses in between."""
    log = events = 0
    half = ""
    stopped = gone = 0.0
    job: Job | None = None
    while True:
        last = job
        try:
            job = _found(plan, roster, name)  # ask first: its last messages are read afterwards
        except InputError:
            if last is None:
                raise
            job = _vanished(plan, roster, last)
            gone = gone or time.monotonic()  # programs of a job that was deleted may be at their end for a while
            if job.state == "cancelled" and live and time.monotonic() - gone < _BACK_S:
                job = replace(last, state="ending")
        folder = _folder_of(plan, job)
        more = True
        while more:
            found = runs.follow(plan, roster, folder, log, events)
            log, events, more = found["log_next"], found["events_next"], found["more"]
            text = found["log"]
            if job.task is not None:
                *whole, half = (half + text).splitlines(keepends=True) or [""]
                if half.endswith("\n"):
                    whole, half = [*whole, half], ""
                text = "".join(line for line in whole if line.startswith(f"{job.task}: "))
            yield Piece(job, text, found["events"])
        if not live or job.state not in (*AT_WORK, "stopped"):
            return
        # A job that makes room, or whose time is up, is briefly `stopped` before it is requeued.
        stopped = (stopped or time.monotonic()) if job.state == "stopped" else 0.0
        if stopped and time.monotonic() - stopped > _BACK_S:
            return
        time.sleep(_POLL_S)


def _vanished(plan: Plan, roster: Roster, last: Job) -> Job:
    """Return the end of a job from its folder, although its scheduler knew it a moment ago."""
    folder = _folder_of(plan, last)
    found = runs.look(plan, roster, folder)
    if last.task is not None:
        found = {**found, "exit": found.get("tasks", {}).get(str(last.task))}
    job = _of_folder(folder.rpartition("/")[2], found, None)
    if job is None or job.state == "unknown":
        why = "its scheduler knows it no more, and it has left no exit code: it was cancelled or deleted"
        return replace(last, state="cancelled", why=why)
    if job.exit_code in _SIGNALLED:
        why = f"exit code {job.exit_code}, as of one that is ended from outside: it was cancelled or deleted"
        job = replace(job, why=why)
    return replace(job, id=last.id, task=last.task)


def of_cluster(plan: Plan, roster: Roster) -> JobScheduler:
    """Return the jobs of a cluster's scheduler."""
    return port_of(plan.scheduler.kind).jobs(plan, roster)


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:40].rstrip("-")
        example = f", for example {plain}" if plain else ""
        rule = "a name is 1 to 40 small letters, digits and '-', from a letter to a letter or digit"
        raise InputError(f"{name!r} is not a legal name of a run", rule + example)


def _options(plan: Plan, group: Group, asked: RunRequest, folder: str, nodes: int) -> dict[str, Any]:
    declared = _declared(plan, group, asked.name, folder) if asked.workload == "training" else {}
    options = run_options.judged(asked.workload, run_options.merged(declared, asked.file, asked.settings))
    if asked.workload == "training":
        _check_layout(options, nodes, options["ranks"] or dict(plan.training.ranks)[group.name])
    return options


def _check_notice(notice_s: int, queue: Queue) -> None:
    limit_s = 60 * queue.time_limit_minutes
    most = min(NOTICE_MAX_S, limit_s // 2) if limit_s else NOTICE_MAX_S
    if notice_s > most:
        half = f"half of the {limit_s} s that queue {queue.name} gives a job"
        why = half if most < NOTICE_MAX_S else "a scheduler can be told"
        raise InputError(f"notice_s: {notice_s} is more than {why}", f"set notice_s to 1 to {most}")


def _check_layout(options: Mapping[str, Any], nodes: int, ranks: int) -> None:
    layout, parallel, heads = options["layout"], options["tensor_parallel"], options["model"]["heads"]
    if layout == "tp" and heads % parallel:
        why = f"the model has {heads} heads, and {heads} / {parallel} = {heads / parallel:.4g}, which is not whole"
        raise InputError(f"tensor_parallel: {why}", f"choose one that divides {heads}, or set model.heads")
    if why := misfit(layout, parallel, nodes, ranks):
        largest = fitting(layout, parallel, nodes, ranks)
        hint = f"--nodes {largest} fits" if largest else "choose another layout, or set ranks: how many a node has"
        raise InputError(f"layout {layout}: {why}", hint)


def _declared(plan: Plan, group: Group, name: str, folder: str) -> dict[str, Any]:
    """Return the plan's defaults of a training run."""
    training = plan.training
    where = training.checkpoints.directory
    peak = dict(training.peak_tflops).get(group.name)
    return {
        "name": name,
        "folder": folder,
        "steps": training.steps,
        "batch": training.batch,
        "layout": training.layout,
        "tensor_parallel": training.tensor_parallel,
        "precision": training.precision,
        "ranks": training.node_ranks,
        "tracking": {
            "kind": training.tracker.kind,
            "url": training.tracker.url,
            "experiment": training.tracker.experiment,
        },
        "checkpoints": {"directory": f"{where}/{name}" if where else "", "keep": training.checkpoints.keep},
        **({"peak_tflops": peak} if peak else {}),
    }


def cluster_options(plan: Plan, roster: Roster, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options by which programs learn about their possible nodes."""
    members = [member for member in roster.members if member.name in names]
    simulated = {group.name for group in plan.pools if group.machine.simulated}
    shared = any(member.group in simulated for member in members)
    if plan.scheduler.traits.runs_pods:  # pods have their own addresses, and the rails that a plug-in gives them
        return {"cluster": {"nodes": [], "rails": [], "shared": shared}}
    nodes = [{"name": each.name, "address": each.address, "rails": list(each.rail_addresses)} for each in members]
    return {"cluster": {"nodes": nodes, "rails": [rail.interface for rail in plan.fabric.rails], "shared": shared}}


def _program(plan: Plan, workload: Workload, folder: str, programs: list[str]) -> tuple[str, ...]:
    results = ("--out", f"{folder}/results") if workload == "validation" else ()
    python = PYTHON_OF_IMAGE if plan.scheduler.workloads_image else PYTHON
    return (python, "-m", workload, *programs, "--options", f"{folder}/{OPTIONS}", *results)


def _check_free(
    plan: Plan, roster: Roster, scheduler: JobScheduler, wanted: JobRequest, options: Mapping[str, Any]
) -> bool:
    """Return whether a run of this name continues. Raise UsedError if it is active or had other options."""
    name = wanted.name
    busy = next((job for job in scheduler.jobs() if job.name == name and job.state in AT_WORK), None)
    if busy:
        hint = f"stampworks logs {name} --follow, or first: stampworks cancel {name}"
        raise UsedError(f"run {name} is still running or waiting: job {busy.id} of {busy.user}, {busy.state}", hint)
    found = runs.look(plan, roster, wanted.folder)
    if not found.get("there"):
        return False
    before = found.get("run")
    earlier = before.get("options") if isinstance(before, dict) else None
    if not isinstance(before, dict) or not isinstance(earlier, dict):
        raise UsedError(f"{wanted.folder} exists, and was not made by submit", "take another name")
    now = {"workload": wanted.workload, **_compared(options)}
    others = run_options.differences({"workload": before.get("workload"), **_compared(earlier)}, now)
    if others:
        lines = "".join(f"\n  {line}" for line in others)
        hint = "take another name, or give the same options, and the run continues"
        raise UsedError(f"run {name} exists with other options:{lines}", hint)
    return True


def _compared(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in DERIVED}


def _warnings(plan: Plan, scheduler: JobScheduler, names: tuple[str, ...], wanted: JobRequest) -> tuple[str, ...]:
    found = []
    if plan.proof.level == "none":
        found.append(f"cluster {plan.name} was never proven: its declaration says proof.level: none")
    out = scheduler.taking_none(names)
    if len(names) - len(out) < wanted.nodes:
        reasons = "; ".join(f"{fold(who)}: {why}" for why, who in _by_reason(out).items())
        left = len(names) - len(out)
        found.append(f"it will wait: {left} of {len(names)} nodes take jobs, and it wants {wanted.nodes} ({reasons})")
    return tuple(found)


def _by_reason(out: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, why in out.items():
        found.setdefault(why, []).append(name)
    return found


def _found(plan: Plan, roster: Roster, name: str) -> Job:
    """Return a job or, by its name or id with `_INDEX` behind it, a task of an array."""
    whole, _, index = name.partition("_")
    if not index.isdecimal():
        return _found_whole(plan, roster, name)
    job, task = _found_whole(plan, roster, whole), int(index)
    if found := next((each for each in job.tasks if each.task == task), None):
        if found.state in AT_WORK:
            return found
        job = found
    folder = runs.look(plan, roster, _folder_of(plan, job)) if plan.storage else {}
    codes = folder.get("tasks")
    code = codes.get(index) if isinstance(codes, dict) else None
    if job.task is None and code is None:
        indexes = [str(each.task) for each in job.tasks if each.task is not None]
        hint = f"there are {fold(indexes)}" if indexes else "see stampworks jobs"
        raise InputError(f"job {job.name} has no task {task} that is known apart", hint)
    if job.task is None:
        return _of_exit(replace(job, id=None, nodes=(), task=task, tasks=(), why=""), code)
    return replace(job, exit_code=code) if job.exit_code is None else job


def _found_whole(plan: Plan, roster: Roster, name: str) -> Job:
    """Return the job with this name or id: on Kubernetes name and team, on Slurm a number."""
    known = of_cluster(plan, roster).jobs()
    run = re.sub(r"^[a-z0-9-]+/", "", name)
    of_name = [job for job in known if job.name == run]
    meant = [job for job in known if str(job.id) == name] or [job for job in of_name if run == name]
    if not roster.is_administered:  # a user means their own
        meant = [job for job in meant if job.user == roster.user] or meant
    if len(meant) > 1:
        several = ", ".join(sorted(str(job.id) for job in meant))
        raise InputError(f"several runs are called {name}: {several}", "name one by its id, as it stands here")
    if of_name and not meant:
        ids = [str(job.id) for job in of_name]
        raise InputError(f"no run is called {name!r} on cluster {plan.name}", nearest(name, ids))
    queued = next(iter(meant), None)
    if queued and queued.state in AT_WORK:
        return queued
    job_name = queued.name if queued else run
    _check_name(job_name)
    if plan.storage:
        for folder in _folders_of(plan, roster, job_name, queued):
            found = runs.look(plan, roster, f"{runs.folder_of_all(plan)}/{folder}")
            if found.get("there") and (job := _of_folder(folder, found, queued)):
                return job
    if queued:
        return queued
    names = [job.name for job in listed(plan, roster)]
    raise InputError(f"no run is called {name!r} on cluster {plan.name}", nearest(name, names))


def _folders_of(plan: Plan, roster: Roster, name: str, queued: Job | None) -> list[str]:
    """Return the folders that a job of this name may have, for any user if Slurm has forgotten it."""
    if queued:
        return [f"{name}.{queued.user}" if queued.workload == OWN else name]
    there = runs.all_runs(plan, roster, runs.folder_of_all(plan)).get("runs", {})
    own = sorted(folder for folder in there if folder.partition(".")[0] == name and "." in folder)
    if f"{name}.{roster.user}" in own:
        return [f"{name}.{roster.user}"]
    if len(own) > 1:
        users = ", ".join(folder.partition(".")[2] for folder in own)
        raise InputError(f"jobs of several users are called {name}: of {users}", "see stampworks jobs")
    return [name, *own]


def own_folder(plan: Plan, name: str, user: str) -> str:
    """Return the folder of a user's job. Names of runs have no dot, so jobs and runs never meet."""
    return f"{runs.folder_of_all(plan)}/{name}.{user}"


def called(job: Job) -> str:
    """Return the name that identifies a job or a task of an array."""
    return job.name if job.task is None else f"{job.name}_{job.task}"


def _folder_of(plan: Plan, job: Job) -> str:
    return own_folder(plan, job.name, job.user) if job.workload == OWN else f"{runs.folder_of_all(plan)}/{job.name}"


def _key(job: Job) -> tuple[str, str]:
    return job.name, job.user if job.workload == OWN else ""


def _key_of_folder(folder: str) -> tuple[str, str]:
    name, _, user = folder.partition(".")
    return name, user


def _without(job: Job, found: Any) -> Job:
    """Return the job with its lost nodes from its own events; Slurm notices only after a while."""
    lost = found.get("lost") if isinstance(found, dict) else None
    if job.state != "running" or not isinstance(lost, list) or not lost:
        return job
    return replace(job, why=f"goes on without {fold([str(name) for name in lost])}")


def _of_folder(name: str, found: Mapping[str, Any], queued: Job | None) -> Job | None:
    """Return how a run ended: by its own record, then the scheduler's, then the exit status of its programs."""
    if queued and queued.state in AT_WORK:
        return queued
    told = found.get("run")
    if not isinstance(told, dict) or told.get("workload") not in (*WORKLOADS, OWN):
        return None
    nodes = told["nodes"] if type(told.get("nodes")) is int else 0
    name, _, owner = name.partition(".")
    user = owner or str(told.get("user", ""))
    job = queued or Job(name, told["workload"], "unknown", None, user, (), nodes, None, "")
    last, code = found.get("last"), exit_code(found)
    if told["workload"] == OWN:
        if queued is None:
            return _of_exit(job, code)
        if queued.state == "finished" and code:  # the scheduler may have forgotten a task that failed
            return _of_exit(queued, code)
        return replace(queued, exit_code=code) if queued.exit_code is None else queued
    broke_off = code not in (None, 0, 75) and isinstance(last, dict) and last.get("why") != "failed"
    # otherwise the event belongs to an earlier attempt
    if isinstance(last, dict) and last.get("what") == "end" and not broke_off:
        ways: dict[object, State] = {"finished": "finished", "preempted": "stopped", "failed": "failed"}
        text = str(last.get("text") or "")
        return replace(job, state=ways.get(last.get("why"), "failed"), why=text)
    if queued:
        return queued
    return _of_exit(job, code, STOPPED)


def exit_code(found: Mapping[str, Any]) -> Any:
    """Return the exit code in the folder of a job; None if it, or one of its tasks, has none."""
    told, code = found.get("run"), found.get("exit")
    tasks = told.get("tasks") if isinstance(told, dict) else None
    return None if code == 0 and isinstance(tasks, int) and len(found.get("tasks", ())) < tasks else code


def _of_exit(job: Job, code: Any, stopped: int | None = None) -> Job:
    """Return the end of a job that its scheduler has forgotten, by the exit code in its folder."""
    codes: dict[object, State] = {None: "unknown", 0: "finished"}
    if stopped is not None:
        codes[stopped] = "stopped"
    why = "its end is not recorded" if code is None else f"exit code {code}" if code not in codes else ""
    return replace(job, state=codes.get(code, "failed"), why=why, exit_code=code)


def as_text(value: Any) -> str:
    """Return options of a run as they are stored in its folder."""
    return json.dumps(value, indent=1) + "\n"
