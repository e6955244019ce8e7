"""`stampworks jobs`, `logs` and `cancel`, and `submit` of training and validation."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, connections, exits, stacks
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stampworks.cli.output import Progress
    from stampworks.operations.job import Job
    from stampworks.operations.jobs import Piece, RunRequest
    from stampworks.plan import Plan, Roster

_HEADER = ("name", "kind", "state", "job", "user", "queue", "nodes", "since", "hours", "GPU hours", "USD", "why")
_IN_A_PIPE = 10_000
_TENTHS = 10


def add_verbs(verbs: Any) -> None:
    """Add the verbs `jobs`, `logs` and `cancel`."""
    jobs = verbs.add_parser("jobs", help="list jobs that run, wait or have ended", allow_abbrev=False)
    stacks.add_stack_option(jobs)
    jobs.add_argument("--mine", metavar="USER", nargs="?", const="", help="runs of this user (default: yourself)")
    jobs.add_argument("--all", action="store_true", help="also ended runs that the accounting keeps")
    jobs.add_argument("--json", action="store_true", help="print them as JSON")
    jobs.set_defaults(call=list_jobs)
    logs = verbs.add_parser("logs", help="show the log of a run", allow_abbrev=False)
    stacks.add_stack_option(logs)
    logs.add_argument("name", metavar="NAME", help="a run from `stampworks jobs`")
    logs.add_argument("--follow", action="store_true", help="until it has ended")
    logs.set_defaults(call=show_logs)
    cancel = verbs.add_parser("cancel", help="end a run; its checkpoints stay", allow_abbrev=False)
    stacks.add_stack_option(cancel)
    cancel.add_argument("name", metavar="NAME", help="a run from `stampworks jobs`")
    cancel.add_argument("--json", action="store_true", help="print the job as JSON")
    cancel.set_defaults(call=cancel_run)


def submit_run(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when the run waits or runs; with --wait, when it has finished."""
    from stampworks.cli.output import Progress
    from stampworks.operations import jobs
    from stampworks.text.printable import printable

    file = _content(arguments.options) if arguments.options else ""
    user = connections.user_of(arguments.stack, arguments.user, default="root" if arguments.kind else "")
    of = (arguments.what, arguments.run, arguments.nodes or 0, arguments.pool or "", user)
    asked = jobs.RunRequest(*of, file, tuple(arguments.set))
    if arguments.kind:
        return _print_manifests(arguments, asked)
    if arguments.image:
        raise exits.CliError("--image needs --print", "leave it out, or add --print jobset")
    plan, roster = clusters.workers_of(arguments.stack)
    with Progress(f"submitting {arguments.run}"):
        run = jobs.prepare(plan, roster, asked)
        number = jobs.submit(plan, roster, run)
    for warning in run.warnings:
        print(f"warning: {printable(warning)}", file=sys.stderr)
    found = {"run": run.wanted.name, "job": number, "nodes": run.wanted.nodes, "folder": run.wanted.folder}
    verb = "goes on" if run.resumes else "is submitted"
    if not arguments.json:
        nodes = counted(run.wanted.nodes, "node")
        print(f"run {run.wanted.name} {verb}: job {number} on {nodes}, in {run.wanted.folder}")
        sys.stdout.flush()
    code = exits.FINE
    if arguments.wait:
        # Follow the run by its id: another user or team may have one with the same name.
        job = watch(jobs.follow(plan, roster, str(number), live=True), f"run {arguments.run}", show=False)
        found |= {"state": job.state, "why": job.why}
        code = exits.OF_STATE.get(job.state, exits.NO)
        if not arguments.json:
            print(ended(job))
    if arguments.json:
        print(json.dumps({**found, "resumes": run.resumes, "warnings": run.warnings}, indent=2))
    return code


def _print_manifests(arguments: argparse.Namespace, asked: RunRequest) -> int:
    """Return the exit code: fine if there is a log to print."""
    import yaml

    from stampworks.operations.kubernetes.manifests import written_down

    objects = written_down(connections.plan_of(arguments.stack), arguments.kind, arguments.image or "", asked)
    if arguments.json:
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
    else:
        print(
            "---\n".join(yaml.dump(each, Dumper=_written_out(), sort_keys=False, width=120) for each in objects), end=""
        )
    return exits.FINE


def _written_out() -> type[Any]:
    """Return a YAML dumper without references, which writes text of several lines as a block."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return Dumper


def list_jobs(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine, whatever the state of the jobs."""
    from stampworks.cli.output import Progress, terminal_width
    from stampworks.operations import jobs
    from stampworks.views.table import sparse

    plan, roster = clusters.workers_of(arguments.stack)
    with Progress(f"asking the scheduler of stack {arguments.stack}"):
        found = jobs.listed(plan, roster, arguments.all)
    if arguments.mine is not None:
        user = arguments.mine or roster.user or "root"
        found = tuple(job for job in found if job.user == user)
    price = _prices(plan, roster)
    if arguments.json:
        listed = [{**dataclasses.asdict(job), "usd": price(job)} for job in found]
        print(json.dumps({"jobs": listed}, indent=2))
    elif found:
        width = terminal_width() if sys.stdout.isatty() else _IN_A_PIPE
        print("\n".join(sparse(_HEADER, [_cells(job, price(job)) for job in found], width)))
    else:
        print("there are no jobs")
    return exits.FINE


def _prices(plan: Plan, roster: Roster) -> Callable[[Job], float | None]:
    """Return a function for the cost of a job so far, by its share of the nodes' accelerators; None is unknown."""
    from stampworks.planning.cost import NoPrice, price_of

    group_of = {member.name: member.group for member in roster.members}
    usd: dict[str, float | None] = {}
    for group in plan.pools:
        found = price_of(plan, group)
        known = not isinstance(found, NoPrice) and group.machine.accelerators
        usd[group.name] = found.usd_per_hour / group.machine.accelerators if known else None  # type: ignore[union-attr]

    def price(job: Job) -> float | None:
        prices = {usd.get(group_of.get(node, "")) for node in job.nodes}
        [one] = prices if len(prices) == 1 else [None]
        return None if one is None or not job.gpu_hours else round(one * job.gpu_hours, 2)

    return price


def show_logs(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when the run exists; with --follow, when it has finished."""
    from stampworks.operations import jobs

    plan, roster = clusters.workers_of(arguments.stack)
    job = watch(jobs.follow(plan, roster, arguments.name, arguments.follow), f"run {arguments.name}", show=True)
    if not arguments.follow:
        return exits.FINE
    print(ended(job), file=sys.stderr)
    return exits.OF_STATE.get(job.state, exits.NO)


def cancel_run(arguments: argparse.Namespace) -> int:
    """Cancel a run; succeed if it has already ended."""
    from stampworks.cli.output import Progress
    from stampworks.operations import jobs
    from stampworks.operations.job import AT_WORK
    from stampworks.operations.jobs import WORKLOADS

    plan, roster = clusters.workers_of(arguments.stack)
    with Progress(f"cancelling {arguments.name}"):
        job = jobs.cancel(plan, roster, arguments.name)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(job), indent=2))
    elif job.state in AT_WORK:
        saved = "" if job.workload not in WORKLOADS else "; its checkpoints stay, and submit continues from them"
        print(f"{kind(job)} {jobs.called(job)} is cancelled: job {job.id}{saved}")
    else:
        print(f"there was nothing to cancel: {ended(job)}")
    return exits.FINE


def watch(pieces: Iterator[Piece], title: str, show: bool) -> Job:
    """Show pieces as they arrive, with the progress of the run, and return its end."""
    from stampworks.cli.output import Progress
    from stampworks.views.running import RunProgress

    running, half, tenth = RunProgress(), "", -1
    with Progress(title) as progress:
        for piece in pieces:
            running.take(piece.events)
            if show:
                *lines, half = (half + piece.log).split("\n")
                _print(lines, progress)
            if piece.job.state == "waiting":
                progress(f"waits: {piece.job.why}")
            elif piece.job.state == "running" and piece.job.why:
                progress(piece.job.why)
            elif line := running.line():
                now = _TENTHS * running.done // running.steps if running.steps else 0
                if progress.terminal or now != tenth or running.state:  # print less than every second into a pipe
                    progress(line)
                tenth = now
        _print([half] if half else [], progress)
    return piece.job


def _print(lines: list[str], progress: Progress) -> None:
    from stampworks.text.printable import printable

    if lines:
        progress.clear()
        print("\n".join(printable(line.expandtabs()) for line in lines), flush=True)


def ended(job: Job) -> str:
    """Return the line about a run that no longer runs."""
    from stampworks.operations.jobs import called
    from stampworks.text.printable import printable

    return printable(f"{kind(job)} {called(job)}: {job.state}" + (f": {job.why}" if job.why else ""))


def kind(job: Job) -> str:
    """Return `run` for a bundled workload, which can be submitted again to continue."""
    from stampworks.operations.jobs import WORKLOADS

    return "run" if job.workload in WORKLOADS else "job"


def _cells(job: Job, usd: float | None) -> tuple[object, ...]:
    from stampworks.text.names import fold

    since = "" if job.since is None else f"{datetime.fromtimestamp(job.since, UTC):%Y-%m-%dT%H:%M:%SZ}"
    nodes = fold(job.nodes) if job.nodes else job.wanted
    hours = (f"{amount:.2f}" if amount else "" for amount in (job.hours, job.gpu_hours))
    cost = "" if usd is None else f"{usd:.2f}"
    why = f"place {job.place} in its queue: {job.why}" if job.place else job.why
    return job.name, job.workload, job.state, job.id, job.user, job.queue, nodes, since, *hours, cost, why


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise exits.CliError(f"{file}: it is no text: {error.reason}", "write a JSON object there") from None
