"""How to run a program on a node: ssh, reached the way the roster says."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence

from stampworks.operations.errors import InputError, OperationError, UnknownError, nearest
from stampworks.plan import Member, Roster

TIMEOUT_S = 20.0

_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    # a shared connection would outlive the command that opened it
    "ControlMaster=no",
    "ControlPath=none",
    "GlobalKnownHostsFile=/dev/null",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "LogLevel=ERROR",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=10",
    "StrictHostKeyChecking=yes",
    "UserKnownHostsFile=/dev/null",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_HOST_KEY = re.compile(r"(?:ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+=*(?: .*)?")


class RemoteError(OperationError):
    """A program on a node ended with another exit code than 0."""


def member(roster: Roster, node: str) -> Member:
    """The roster's entry for a node; one that is not there is an error that names its neighbours."""
    for candidate in roster.members:
        if candidate.name == node:
            return candidate
    names = [candidate.name for candidate in roster.members]
    raise InputError(f"no node is called {node!r} in cluster {roster.cluster}", nearest(node, names))


def head(roster: Roster) -> Member:
    """The controller, where the scheduler's own programs run."""
    for candidate in roster.members:
        if candidate.group == "head":
            return candidate
    raise UnknownError(
        f"cluster {roster.cluster} has no controller: no node of the group 'head' is running",
        "`pulumi up` starts what is missing",
    )


def ssh_command(roster: Roster, node: str, argv: Sequence[str] = ()) -> list[str]:
    """The command that runs argv on a node, or logs in when argv is empty.

    The node's shell sees argv word by word as given, whatever is in it. Its host key is the one its cloud reported:
    ssh takes it from a command instead of a file, so that there is nothing to clean up and nothing that can be stale.
    """
    target = member(roster, node)
    if not _NAME.fullmatch(target.name) or not _HOST_KEY.fullmatch(target.host_key):
        raise UnknownError(
            f"the roster has no usable host key for {target.name!r}", "`pulumi up` makes the roster anew"
        )
    key = " ".join(target.host_key.split()[:2])
    options = (*_OPTIONS, f"HostKeyAlias={target.name}", f"KnownHostsCommand=/bin/echo {target.name} {key}")
    command = [*roster.reach, "ssh", "-F", "none", "-i", roster.identity_file.replace("%", "%%")]
    command += [word for option in options for word in ("-o", option)]
    command += ["-l", roster.user, "--", target.address]
    return command + ([shlex.join(argv)] if argv else [])


def ask(roster: Roster, node: str, argv: Sequence[str], timeout_s: float = TIMEOUT_S) -> str:
    """What a program on a node prints; it gets no input and has a time limit."""
    try:
        done = subprocess.run(
            ssh_command(roster, node, argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnknownError(
            f"{node}: {argv[0]} did not answer within {timeout_s:.0f} s", "`pulumi up` restarts what is dead"
        ) from None
    except FileNotFoundError as error:
        raise not_installed(error) from None
    said = _last_line(done.stderr)
    if done.returncode == 255:
        raise UnknownError(f"{node} cannot be reached: {said}", "`pulumi up` restarts what is dead")
    if done.returncode != 0:
        raise RemoteError(
            f"{node}: {argv[0]} ended with exit code {done.returncode}: {said}",
            f"look there: stampworks ssh {node}",
        )
    return done.stdout.decode(errors="replace")


def not_installed(error: FileNotFoundError) -> UnknownError:
    """What to say when a program of this machine that leads to a node is not there."""
    return UnknownError(
        f"{error.filename} is not installed on this machine", "install it, for ssh: apt-get install openssh-client"
    )


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
