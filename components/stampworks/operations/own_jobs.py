"""Jobs of users: judged as a whole, then copied, then submitted."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stampworks.jobs import Job, JobError, JobSource, Problem, resolve
from stampworks.jobs.checks import is_folder, problems
from stampworks.jobs.forms import indexes_of
from stampworks.jobs.script import exports
from stampworks.operations import on_storage, runs
from stampworks.operations import workdir as workdirs
from stampworks.operations.errors import OperationError, UnknownError, nearest
from stampworks.operations.job import AT_WORK, JobScheduler
from stampworks.operations.jobs import UsedError, as_text, exit_code, of_cluster, own_folder
from stampworks.operations.on_cluster import ClusterProgram
from stampworks.operations.on_head import RUN
from stampworks.operations.users import expect_user
from stampworks.operations.workdir import Workdir, WorkdirError
from stampworks.plan import Plan, Roster

_PROGRAM = ClusterProgram(on_storage, 600.0, "the cluster answered something else about a job's folder")
_POLL_S = 5.0
_PART_BYTES = 16 << 20
"""Bytes of a transfer."""
SECRET_BYTES_MAX = 64 << 10


@dataclass(frozen=True)
class Prepared:
    """A job without known problems, and its files."""

    job: Job
    secrets: Mapping[str, str]
    workdir: Workdir | None
    after: tuple[int | str, ...]
    """Ids of the jobs that it waits for."""
    source: JobSource
    turn: str = ""
    """The last submission of this name, when the cluster was asked."""


def checked(plan: Plan, source: JobSource, user: str, environment: Mapping[str, str]) -> Prepared:
    """Check everything that needs no cluster; JobError has all problems at once."""
    expect_user(plan, user)
    found = [*source.problems, *problems(source, plan, user)]
    secrets: dict[str, str] = {}
    for index, secret in enumerate(source.sound.secrets if source.knows("secrets") else ()):
        try:
            secrets[secret.name] = _secret(secret.name, secret.file, source.folder, environment)
        except _SecretError as error:
            found.append(source.problem(f"secrets[{index}]", str(error), error.hint))
    workdir = None
    if source.knows("workdir") and source.sound.workdir:
        try:
            workdir = workdirs.scan(source.folder / Path(source.sound.workdir).expanduser())
        except WorkdirError as error:
            found.append(source.problem("workdir", str(error), error.hint))
    if found:
        raise JobError(found)
    return Prepared(resolve(source, plan, user, runs.folder_of_all(plan)), secrets, workdir, (), source)


def prepare(plan: Plan, roster: Roster, source: JobSource, user: str, environment: Mapping[str, str]) -> Prepared:
    """Judge a job with the cluster; nothing is changed."""
    prepared = checked(plan, source, user, environment)
    job, scheduler = prepared.job, of_cluster(plan, roster)
    known = [each for each in scheduler.jobs() if each.workload == "job" and each.user == user]
    if busy := next((each for each in known if each.name == job.name and each.state in AT_WORK), None):
        hint = f"stampworks logs {job.name} --follow, or another name: --name NAME"
        raise UsedError(f"job {job.name} of {user} is at work: job {busy.id}, {busy.state}", hint)
    found: list[Problem] = []
    after: list[int | str] = []
    for index, name in enumerate(job.file.depends_on):
        other = next((each for each in known if each.name == name), None)
        if other and other.state in AT_WORK and other.id is not None:
            after.append(other.id)
            continue
        ended = exit_code(runs.look(plan, roster, own_folder(plan, name, user)))
        if other.state != "finished" or ended not in (0, None) if other else ended != 0:
            message = (
                f"{user} has no job {name}" if other is None and ended is None else f"job {name} has not ended well"
            )
            found.append(source.problem(f"depends_on[{index}]", message, nearest(name, [each.name for each in known])))
    image = job.file.image if is_folder(job.file.image) else ""
    looked = _PROGRAM.ask(plan, roster, user, ["look", job.folder, image])
    if looked.get("image"):
        hint = "name a folder with a root file system that all nodes see"
        found.append(source.problem("image", f"{image} {looked['image']}", hint))
    if found:
        raise JobError(found)
    if not looked.get("mine"):
        raise UsedError(f"{job.folder} belongs to another user", "take another name: --name NAME")
    return replace(prepared, after=tuple(after), turn=str(looked.get("turn", "")))


def prepare_after(
    plan: Plan,
    roster: Roster,
    source: JobSource,
    user: str,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> Prepared:
    """Check a job with the cluster, and wait for the jobs before it if the scheduler does not order jobs.

    Kueue has no order of jobs, and no part of Kubernetes reacts to the end of one. Until then the cluster has no object
    of the job, and the job holds nothing.
    """
    prepared = prepare(plan, roster, source, user, environment)
    scheduler = of_cluster(plan, roster)
    while plan.scheduler.traits.runs_pods and prepared.after:
        waits, heard = set(prepared.after), True
        while waits:
            progress(
                f"waits for {', '.join(sorted(map(str, waits)))}" + ("" if heard else ": the cluster is not heard")
            )
            time.sleep(_POLL_S)
            try:
                waits &= {job.id for job in scheduler.jobs() if job.state in AT_WORK}
                heard = True
            except UnknownError:
                heard = False
        prepared = prepare(plan, roster, source, user, environment)
    return prepared


def written_down(scheduler: JobScheduler, prepared: Prepared) -> dict[str, str]:
    """Return the files of a job for its scheduler, by name; none has a secret."""
    return scheduler.own_files(prepared.job, prepared.workdir.digest if prepared.workdir else "")


def submit(plan: Plan, roster: Roster, prepared: Prepared) -> int | str:
    """Copy a job, submit it, and return its id."""
    job, scheduler = prepared.job, of_cluster(plan, roster)
    told: dict[str, Any] = {"version": 1, "workload": "job", "nodes": job.file.nodes, "user": job.user}
    if job.file.array and plan.scheduler.traits.runs_pods:  # each task leaves its exit code
        told["tasks"] = len(indexes_of(job.file.array))
    files = {RUN: as_text(told), **written_down(scheduler, prepared)}
    objects = f"{job.folder.rpartition('/')[0]}/.objects.{job.user}"
    runs.make(plan, roster)
    if prepared.workdir:
        _send(plan, roster, job.user, objects, prepared.workdir)
    on_slurm = not plan.scheduler.traits.runs_pods
    given = {
        "files": files,
        "secrets": exports(prepared.secrets) if on_slurm else "",
        "manifest": prepared.workdir.entries if prepared.workdir else None,
        "turn": prepared.turn,
    }
    placed = _PROGRAM.ask(plan, roster, job.user, ["place", job.folder, objects], json.dumps(given))
    if busy := placed.get("busy"):
        hint = f"stampworks logs {job.name} --follow, or another name: --name NAME"
        raise JobError([prepared.source.problem("name", f"job {job.name} of {job.user}: {busy}", hint)])
    try:
        number = scheduler.submit_own(job, prepared.secrets, prepared.after)
    except UnknownError as error:
        if prepared.secrets and not on_slurm:  # the Secret is created after the job, and may be missing
            hint = f"stampworks cancel {job.name}, and submit it again: without its Secret it would not start"
            raise UnknownError(str(error).splitlines()[0], hint) from None
        number = _although_lost(scheduler, job, error)
    except OperationError:
        _PROGRAM.ask(plan, roster, job.user, ["forget", job.folder])
        raise
    _PROGRAM.ask(plan, roster, job.user, ["watch", job.folder, str(number)])
    return number


def _although_lost(scheduler: JobScheduler, job: Job, error: UnknownError) -> int | str:
    """Return the id of a job whose submission was not answered. Its secrets stay while it may be in the queue."""
    with contextlib.suppress(OperationError):
        for each in scheduler.jobs():
            if (each.name, each.user) == (job.name, job.user) and each.state in AT_WORK and each.id is not None:
                return each.id
    lost = str(error).splitlines()[0]
    what = f"job {job.name} may be submitted or not, and what it needs stays in {job.folder}: {lost}"
    raise UnknownError(what, f"stampworks jobs shows it if it is; then cancel it, or wait: logs {job.name} --follow")


def _send(plan: Plan, roster: Roster, user: str, objects: str, workdir: Workdir) -> None:
    """Send the contents that the cluster has not yet."""
    contents = workdir.contents
    answer = _PROGRAM.ask(plan, roster, user, ["missing", objects], json.dumps(sorted(contents)))
    wanted = [digest for digest in answer.get("missing", ()) if digest in contents]
    for part in _parts({digest: contents[digest] for digest in wanted}):
        _PROGRAM.ask(plan, roster, user, ["put", objects], json.dumps(part))


def _parts(contents: Mapping[str, Path]) -> Iterator[list[tuple[str, int, int, str]]]:
    """Yield pieces of contents for a call each: digest, position, total size, and bytes."""
    part: list[tuple[str, int, int, str]] = []
    room = _PART_BYTES
    for digest, path in contents.items():
        size, offset = path.stat().st_size, 0
        with path.open("rb") as file:
            while offset < size or not offset:
                content = file.read(room)
                part.append((digest, offset, size, base64.b64encode(content).decode()))
                offset += len(content)
                room -= len(content)
                if room <= 0:
                    yield part
                    part, room = [], _PART_BYTES
                if not content:
                    break
    if part:
        yield part


class _SecretError(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _secret(name: str, file: str, folder: Path, environment: Mapping[str, str]) -> str:
    if not file:
        if name not in environment:
            raise _SecretError(f"the variable {name} is not set here", f"export {name}, or name a file: of the secret")
        return environment[name]
    path = folder / Path(file).expanduser()
    try:
        with path.open("rb") as opened:
            content = opened.read(SECRET_BYTES_MAX + 1)
        value = content.decode().rstrip("\n")
    except OSError as error:
        raise _SecretError(f"{path}: {error.strerror}", "name the file with the value") from None
    except UnicodeDecodeError:
        raise _SecretError(f"{path} is not text", "encode the value, for example with base64") from None
    if len(content) > SECRET_BYTES_MAX or "\0" in value:
        raise _SecretError(f"{path} is not a value of at most {SECRET_BYTES_MAX >> 10} KiB", "name another file")
    return value
