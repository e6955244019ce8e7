"""`stampworks ssh`, `run` and `kubectl`: a shell on a node, a job on nodes, and requests to a Kubernetes."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from stampworks.cli import clusters, connections, exits, stacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stampworks.operations.run import CommandRun, Commands
    from stampworks.plan import Plan, Roster

_SSH_FAILED = 255
_LOOK_S = 0.2
_STDOUT = 1


def add_verbs(verbs: Any) -> None:
    """Add the verbs `ssh`, `run` and `kubectl`."""
    ssh = verbs.add_parser(
        "ssh",
        help="log in to a node, or run a command there",
        usage="stampworks ssh [-h] [-s STACK] (NODE | --job JOB) [-- COMMAND ...]",
        allow_abbrev=False,
    )
    stacks.add_stack_option(ssh)
    where = ssh.add_mutually_exclusive_group(required=True)
    where.add_argument("node", metavar="NODE", nargs="?", help="a name from `stampworks status`")
    where.add_argument("--job", metavar="JOB", help="the first node of a job that runs: its name or number")
    ssh.set_defaults(call=log_in, takes_command=True)
    run = verbs.add_parser(
        "run",
        help="run a command on nodes through the scheduler",
        usage="stampworks run [-h] [-s STACK] [--nodes N] [--pool POOL] [--gpus N] [--user USER] [--wait] COMMAND ...",
        allow_abbrev=False,
    )
    stacks.add_stack_option(run)
    run.add_argument("--nodes", metavar="N", type=count, default=0, help="on how many nodes (default: all that can)")
    run.add_argument(
        "--pool",
        metavar="POOL",
        default="",
        help="take nodes take nodes of this pool (default: those of the default queue)",
    )
    run.add_argument("--gpus", metavar="N", type=gpus, help="accelerators of each node (default: all that it has)")
    stacks.add_user_option(run, "root")
    run.add_argument("--wait", action="store_true", help="for nodes on which jobs run now")
    _add_command(run)
    kubectl = verbs.add_parser(
        "kubectl",
        help="run kubectl against a cluster, as its administrator",
        usage="stampworks kubectl [-h] [-s STACK] COMMAND ...",
        allow_abbrev=False,
    )
    stacks.add_stack_option(kubectl)
    _add_command(kubectl)
    run.set_defaults(call=run_job)
    kubectl.set_defaults(call=ask_kubernetes)


def _add_command(verb: argparse.ArgumentParser) -> None:
    """Take everything from the first word that is no option of the verb, with or without `--` before it."""
    verb.add_argument("command", metavar="COMMAND ...", nargs=argparse.REMAINDER, help="the command and its arguments")
    verb.set_defaults(takes_command=True)


def ask_kubernetes(arguments: argparse.Namespace) -> NoReturn:
    """Becomes kubectl, so that the terminal, signals and the exit code are its own."""
    from stampworks.operations.kubernetes import client as kubernetes

    hers = connections.kubeconfig_of(arguments.stack)
    asks = kubernetes.kubectl_with(hers) if hers else kubernetes.kubectl(clusters.plan_of(arguments.stack))
    command = [*asks, *arguments.command]
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606  # a list of arguments, no shell


def count(text: str) -> int:
    """Read a positive number of nodes for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes: write 1 or more")
    return int(text)


def gpus(text: str) -> int:
    """Read a number of accelerators for argparse; 0 is valid."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of accelerators: write 0 or more")
    return int(text)


def log_in(arguments: argparse.Namespace) -> NoReturn:
    """Becomes ssh, so that the terminal, signals and the exit code are its own."""
    from stampworks.operations.remote import not_installed, ssh_line

    plan, roster = clusters.cluster_of(arguments.stack)
    node = arguments.node or _node_of(plan, roster, arguments.job)
    # Join the words as ssh does: the remote shell reads one line.
    command = ssh_line(roster, node, " ".join(arguments.command))
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606  # a list of arguments, no shell
    except FileNotFoundError:
        raise not_installed(FileNotFoundError(2, "", command[0])) from None


def _node_of(plan: Plan, roster: Roster, asked: str) -> str:
    """Return the first node of a job with this name or number. An error gives the state of a job that does not run."""
    from stampworks.operations import jobs
    from stampworks.operations.errors import nearest

    known = jobs.listed(plan, roster)
    found = [job for job in known if asked in (job.name, str(job.id))]
    for job in found:
        if job.state in ("running", "ending") and job.nodes:
            return job.nodes[0]
    if found:
        what = f"job {asked} is on no node now: it is {found[0].state}"
        raise exits.CliError(what, "stampworks jobs lists running jobs", exits.NO)
    raise exits.CliError(f"no job is called {asked!r}", nearest(asked, [job.name for job in known]))


def run_job(arguments: argparse.Namespace) -> int:
    """Print the output of a command as it arrives, and return its exit status."""
    from stampworks.operations.run import RunOptions
    from stampworks.operations.schedulers import commands_of
    from stampworks.text.printable import printable

    if not arguments.command:
        raise exits.CliError("run needs a command", "for example: stampworks run hostname")
    plan = clusters.plan_of(arguments.stack)
    commands = commands_of(plan, clusters.asked_of(plan, arguments.stack))
    user = connections.user_of(arguments.stack, arguments.user, default="root")
    asked = RunOptions(arguments.nodes, arguments.pool, user, arguments.gpus, arguments.wait)
    run = commands.prepare(arguments.command, asked)
    for line in run.left_out:
        print(printable(f"left out: {line}"), file=sys.stderr)
    return _carry_out(commands, run)


def _carry_out(commands: Commands, run: CommandRun) -> int:
    from stampworks.operations.remote import not_installed

    before = signal.signal(signal.SIGTERM, exits.terminated)
    finished = False
    try:
        code = _stream(run.command)
        finished = code >= 0 and code != _SSH_FAILED
    except FileNotFoundError as error:
        raise not_installed(error) from None
    finally:
        signal.signal(signal.SIGTERM, before)
        if not finished:
            # srun survives its ssh: cancel the job on Ctrl-C, or when the reader of our output has left
            commands.cancel(run)
    if code == _SSH_FAILED:
        commands.expect_reachable()  # raises an error if ssh itself failed, and not the command
    return code if code >= 0 else 128 - code


def _stream(command: Sequence[str]) -> int:
    """Return the exit code of a command that shares this process's streams; a reader that leaves ends it, which ssh
    alone would not."""
    stdout = select.poll()
    stdout.register(_STDOUT, 0)  # POLLERR is always reported: the reader has closed the pipe
    with subprocess.Popen(command) as process:
        try:
            while process.poll() is None:
                if any(event & select.POLLERR for _, event in stdout.poll(0)):
                    raise BrokenPipeError
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
        finally:
            process.terminate()
    return process.returncode
