"""`stampworks submit`: a job of a user from a file or a command line, or a bundled workload."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, connections, exits, stacks
from stampworks.cli.reach import count
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from stampworks.jobs import JobSource

WORKLOADS = ("training", "validation")
OPTIONS = {"name": "name", "nodes": "nodes", "gpus": "gpus_per_node", "pool": "pool", "queue": "queue"}
OPTIONS |= {"account": "account", "time": "time_limit", "workdir": "workdir", "image": "image"}
"""Options that replace a field of the job file, with that field."""
_OF_JOBS = ("gpus", "queue", "account", "time", "workdir")
_OF_WORKLOADS = ("options", "set", "kind")


def add_verbs(verbs: Any) -> None:
    """Add the verb `submit` and its options."""
    usage = (
        "stampworks submit [-h] [-s STACK] [OPTION ...] FILE\n"
        "       stampworks submit [-h] [-s STACK] [OPTION ...] -- COMMAND ...\n"
        "       stampworks submit [-h] [-s STACK] [OPTION ...] WORKLOAD NAME"
    )
    submit = verbs.add_parser(
        "submit", help="start a job: a job file, a command, or training", usage=usage, allow_abbrev=False
    )
    stacks.add_stack_option(submit)
    submit.add_argument("what", metavar="FILE", nargs="?", default="", help="a job file, or training or validation")
    submit.add_argument("run", metavar="NAME", nargs="?", default="", help="name of a workload's run")
    submit.add_argument("--name", metavar="NAME", help="name of the job (default: that of its file or command)")
    submit.add_argument("--nodes", metavar="N", type=count, help="on how many nodes (default: 1, of a workload all)")
    submit.add_argument(
        "--gpus", metavar="N", type=accelerators, help="accelerators of each node (default: whole nodes)"
    )
    submit.add_argument(
        "--pool", metavar="POOL", help="take nodes take nodes of this pool (default: those of the queue)"
    )
    submit.add_argument("--queue", metavar="QUEUE", help="submit to this queue (default: the default queue)")
    submit.add_argument("--account", metavar="ACCOUNT", help="charged to this account (default: the user's first)")
    submit.add_argument("--time", metavar="TIME", help="ended after this time, as in 30m, 4h or 2d")
    submit.add_argument("--workdir", metavar="FOLDER", help="copy this folder, and start in it")
    submit.add_argument("--env", metavar="KEY=VALUE", action="append", default=[], help="one variable of the job")
    stacks.add_user_option(submit, "")
    submit.add_argument("--options", metavar="FILE", default="", help="JSON file with a workload's options")
    submit.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="option of a workload, as in --set model.layers=8",
    )
    submit.add_argument("--image", metavar="IMAGE", help="a root file system; with --print, an image with the programs")
    instead = submit.add_mutually_exclusive_group()
    instead.add_argument("--wait", action="store_true", help="until it has ended; a job's exit code is passed through")
    instead.add_argument("--dry-run", action="store_true", help="submit nothing, and print the sbatch script or JobSet")
    kinds = ("jobset", "trainjob", "mpijob")
    help_ = f"of a workload: submit nothing, and print it as an object of Kubernetes: {', '.join(kinds)}"
    instead.add_argument("--print", metavar="KIND", dest="kind", choices=kinds, help=help_)
    submit.add_argument("--json", action="store_true", help="print the result as JSON")
    submit.set_defaults(call=submit_any, takes_command=True)


def accelerators(text: str) -> int:
    """Read a number of accelerators for argparse; 0 is valid."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of accelerators: write 0 or more")
    return int(text)


def submit_any(arguments: argparse.Namespace) -> int:
    """With --wait, return the exit code of the job."""
    from stampworks.cli.jobs import submit_run

    if arguments.what in WORKLOADS and not arguments.command:
        _refuse(arguments, _OF_JOBS, f"{arguments.what} is a bundled workload")
        if not arguments.run:
            raise exits.CliError(f"submit {arguments.what} needs a name", f"stampworks submit {arguments.what} NAME")
        return submit_run(arguments)
    _refuse(arguments, _OF_WORKLOADS, "a job of your own has none")
    if arguments.run:
        hint = "did you mean training?" if arguments.what.startswith("train") else "stampworks submit FILE.yaml"
        raise exits.CliError(f"no workload is called {arguments.what!r}: there are {' and '.join(WORKLOADS)}", hint)
    return _submit_own(arguments, _source(arguments))


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    given = [name for name in names if getattr(arguments, name)]
    if given:
        raise exits.CliError(f"--{given[0].replace('kind', 'print')}: {why}", "leave it out")


def _source(arguments: argparse.Namespace) -> JobSource:
    from stampworks.jobs import read_command, read_job

    over = {field: value for option, field in OPTIONS.items() if (value := getattr(arguments, option)) is not None}
    env = {}
    for setting in arguments.env:
        name, equals, value = setting.partition("=")
        if not equals:
            raise exits.CliError(f"--env {setting}: it has no value", "write --env KEY=VALUE")
        env[name] = value
    over |= {"env": env} if env else {}
    if bool(arguments.what) == bool(arguments.command):
        hint = "stampworks submit job.yaml, or: stampworks submit --nodes 2 -- COMMAND"
        raise exits.CliError("submit needs either a job file or a command", hint)
    if arguments.command:
        return read_command(arguments.command, over, Path())
    if "workdir" in over:  # a path of the command line is relative to the working directory, not to the file
        over["workdir"] = str(Path(over["workdir"]).absolute())
    return read_job(Path(arguments.what), over)


def _submit_own(arguments: argparse.Namespace, source: JobSource) -> int:
    from stampworks.cli.jobs import ended, watch
    from stampworks.cli.output import Progress
    from stampworks.operations import jobs, own_jobs

    if arguments.dry_run:
        return _dry_run(arguments, source)
    user = connections.user_of(arguments.stack, arguments.user, default="")
    plan, roster = clusters.workers_of(arguments.stack)
    with Progress("checking the job") as progress:
        prepared = own_jobs.prepare_after(plan, roster, source, user, os.environ, progress)
    job = prepared.job
    with Progress(f"submitting {job.name}"):
        number = own_jobs.submit(plan, roster, prepared)
    found: dict[str, Any] = {
        "name": job.name,
        "job": number,
        "nodes": job.file.nodes,
        "user": user,
        "folder": job.folder,
    }
    if not arguments.json:
        print(f"job {job.name} is submitted: job {number} on {counted(job.file.nodes, 'node')}, in {job.folder}")
        sys.stdout.flush()
    code = exits.FINE
    if arguments.wait:
        last = watch(jobs.follow(plan, roster, str(number), live=True), f"job {job.name}", show=not arguments.json)
        code = exits.FINE if last.state == "finished" else last.exit_code or exits.OF_STATE.get(last.state, exits.NO)
        found |= {"state": last.state, "why": last.why, "exit_code": last.exit_code}
        if not arguments.json:
            print(ended(last), file=sys.stderr)
    if arguments.json:
        print(json.dumps(found, indent=2))
    return code


def _dry_run(arguments: argparse.Namespace, source: JobSource) -> int:
    """Return the exit code: fine when the job could be submitted. The cluster is not asked."""
    from stampworks.operations import own_jobs
    from stampworks.operations.jobs import of_cluster
    from stampworks.plan import Roster

    plan = connections.plan_of(arguments.stack)
    user = connections.user_of(arguments.stack, arguments.user, default="root")
    prepared = own_jobs.checked(plan, source, user, os.environ)
    nobody = Roster(plan.name, plan.cloud, (), "", "", (), plan.region)
    files = own_jobs.written_down(of_cluster(plan, nobody), prepared)
    if arguments.json:
        print(json.dumps({"folder": prepared.job.folder, "files": files}, indent=2))
        return exits.FINE
    print("nothing was submitted, and neither a cluster nor an account was contacted", file=sys.stderr)
    for name, text in files.items():
        print(f"# ---- {prepared.job.folder}/{name}\n{text}")
    return exits.FINE
