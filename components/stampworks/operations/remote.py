"""Run programs on nodes by ssh, through the proxy of the roster."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import IO

from stampworks.operations.errors import InputError, OperationError, UnknownError, nearest
from stampworks.plan import CONTROLLER, LOGIN, Member, Roster
from stampworks.text.printable import printable

TIMEOUT_S = 20.0
BYTES_MAX = 64 << 20
"""Limit for a node's answer: Slurm prints less about thousands of nodes and jobs. A longer answer is cut off."""
_CHUNK_BYTES = 1 << 16

_OPTIONS = (
    "ConnectTimeout=10",
    # a shared connection would outlive the command that opened it
    "ControlMaster=no",
    "ControlPath=none",
    "GlobalKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=10",
    "StrictHostKeyChecking=yes",
    "UserKnownHostsFile=/dev/null",
)
_OF_ADMINISTRATORS = ("BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none")
"""The cluster's own key, and no other."""
_OF_USERS = ("PreferredAuthentications=publickey",)
"""Options for a user's own key, wherever ssh finds it: ssh may ask for its passphrase, but for no password."""
_OF_SSH = re.compile(
    r"kex_exchange_identification|banner exchange|Connection (?:closed|reset|timed out)|Warning: |ssh: |"
    r"Host key verification failed|.*Permission denied \("
)
"""Start of ssh's own lines about a connection that it does not get."""
_BECOME = ("runuser", "-l")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_HOST_KEY = re.compile(r"(?:ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+=*(?: .*)?")


class RemoteError(OperationError):
    """A program on a node ended with another exit code than 0."""


def member(roster: Roster, node: str) -> Member:
    """Return the roster's entry for a node; raise an error with similar names for an unknown one."""
    for candidate in roster.members:
        if candidate.name == node:
            return candidate
    names = [candidate.name for candidate in roster.members]
    raise InputError(f"no node is called {node!r} in cluster {roster.cluster}", nearest(node, names))


def head(roster: Roster) -> Member:
    """The controller, which has the scheduler's own programs."""
    for candidate in roster.members:
        if candidate.group == CONTROLLER:
            return candidate
    raise UnknownError(
        f"cluster {roster.cluster} has no controller: no node of the group {CONTROLLER!r} is running",
        "`pulumi up --refresh` starts one again",
    )


def door(roster: Roster) -> Member:
    """Return the member on which shared storage is read: the head, or any node if the scheduler has none."""
    if roster.members:
        return next((each for each in roster.members if each.group == CONTROLLER), roster.members[0])
    raise UnknownError(f"no node of cluster {roster.cluster} is running", "`pulumi up` starts missing nodes")


def ssh_command(roster: Roster, node: str, argv: Sequence[str] = ()) -> list[str]:
    """Return the command that runs argv on a node, or logs in if argv is empty.

    The node's shell sees the words of argv unchanged. Its host key is the one that its cloud reported: ssh gets it from
    a command instead of a file, so that nothing has to be cleaned up, and nothing can be stale.
    """
    return ssh_line(roster, node, shlex.join(_by(roster, argv)))


def ssh_line(roster: Roster, node: str, line: str) -> list[str]:
    """Return the same for a line that the node's shell reads. A user reaches most nodes through the head."""
    target, interactive = member(roster, node), []
    if not roster.is_administered and target.group not in (CONTROLLER, LOGIN):
        line, interactive = shlex.join(["ssh", target.name, *([line] if line else [])]), [] if line else ["-t"]
        target = head(roster)
    return [*_ssh(roster, target), *interactive, "--", roster.host(target), *([line] if line else [])]


def _ssh(roster: Roster, target: Member) -> list[str]:
    """The program with its options."""
    if not _NAME.fullmatch(target.name) or not _HOST_KEY.fullmatch(target.host_key):
        raise UnknownError(f"the roster has no usable host key for {target.name!r}", "`pulumi up` renews the roster")
    key = " ".join(target.host_key.split()[:2])
    options = sorted((*_OPTIONS, *(_OF_ADMINISTRATORS if roster.is_administered else _OF_USERS)))
    options += [f"HostKeyAlias={target.name}", f"KnownHostsCommand=/bin/echo {target.name} {key}"]
    options += [f"ProxyCommand={shlex.join(roster.proxy)}"] if roster.proxy else []
    identity = ["-i", roster.identity_file.replace("%", "%%")] if roster.identity_file else []
    command = [*roster.reach, "ssh", "-F", "none", *identity]
    return [*command, *(word for option in options for word in ("-o", option)), "-l", roster.user]


def _by(roster: Roster, argv: Sequence[str]) -> Sequence[str]:
    """Return a command for another user. A user with her own login needs none, and may not become another."""
    if roster.is_administered or tuple(argv[:2]) != _BECOME:
        return argv
    return ["bash", "-l", "-c", argv[-1]]


def as_user(user: str, argv: Sequence[str]) -> list[str]:
    """A login shell of the user: its environment, its groups, its home, and nothing of root's."""
    return [*_BECOME, user, "-c", shlex.join(argv)]


def ask(roster: Roster, node: str, argv: Sequence[str], timeout_s: float = TIMEOUT_S, given: str = "") -> str:
    """Return the output of a program on a node, with a time limit and the given input."""
    code, stdout, said = hear(roster, node, argv, timeout_s, given)
    if code != 0:
        raise RemoteError(
            f"{node}: {argv[0]} ended with exit code {code}: {said}", f"look there: stampworks ssh {node}"
        )
    return stdout


def hear(roster: Roster, node: str, argv: Sequence[str], timeout_s: float, given: str = "") -> tuple[int, str, str]:
    """Return exit code, output and last error line of a program on a node, however it ended."""
    try:
        code, stdout, stderr = _heard(ssh_command(roster, node, argv), timeout_s, given)
    except subprocess.TimeoutExpired:
        raise UnknownError(
            f"{node}: {argv[0]} did not answer within {timeout_s:.0f} s", "`pulumi up` restarts dead nodes"
        ) from None
    except FileNotFoundError as error:
        raise not_installed(error) from None
    if len(stdout) + len(stderr) > BYTES_MAX:
        raise UnknownError(
            f"{node}: {argv[0]} said more than {BYTES_MAX >> 20} MiB and was ended",
            f"look there: stampworks ssh {node}",
        )
    if code == 255:
        raise _unreached(roster, node, stderr)
    return code, stdout.decode(errors="replace"), _last_line(stderr)


def _unreached(roster: Roster, node: str, stderr: bytes) -> UnknownError:
    """Return the error for a node that ssh did not reach. Messages of a proxy come before ssh's own."""
    lines = stderr.decode(errors="replace").splitlines()
    of_proxy = [line for line in lines if line.strip() and not _OF_SSH.match(line)] if roster.proxy else []
    if not of_proxy:
        return UnknownError(f"{node} cannot be reached: {_last_line(stderr)}", "`pulumi up` restarts dead nodes")
    way = shlex.join(word.replace("%h", roster.host(member(roster, node))) for word in roster.proxy)
    return UnknownError(f"{node} cannot be reached: {printable(of_proxy[-1].strip())}", f"ssh goes through: {way}")


def _heard(command: list[str], timeout_s: float, given: str) -> tuple[int, bytes, bytes]:
    """Return exit code, output and errors of a command, which is ended if it prints too much or takes too long."""
    pipe, deadline = subprocess.PIPE, monotonic() + timeout_s
    with (
        _file(given) as stdin,
        subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe) as process,
        selectors.DefaultSelector() as selector,
    ):
        said = (bytearray(), bytearray())
        for stream, heard in zip((process.stdout, process.stderr), said, strict=True):
            selector.register(stream, selectors.EVENT_READ, heard)  # type: ignore[arg-type]  # both are pipes
        try:
            while selector.get_map() and sum(map(len, said)) <= BYTES_MAX:
                for key, _ in selector.select(_left_s(command, deadline)):
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    key.data.extend(chunk)
                    if not chunk:
                        selector.unregister(key.fileobj)
            if not selector.get_map():
                process.wait(_left_s(command, deadline))
        finally:
            process.kill()
    return process.returncode, bytes(said[0]), bytes(said[1])


@contextlib.contextmanager
def _file(text: str) -> Iterator[IO[bytes]]:
    """Yield a file at its beginning: unlike a pipe, it never blocks its writer."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _left_s(command: list[str], deadline: float) -> float:
    left_s = deadline - monotonic()
    if left_s <= 0:
        raise subprocess.TimeoutExpired(command, 0)
    return left_s


def not_installed(error: FileNotFoundError) -> UnknownError:
    """Return the error for a missing program of this machine that leads to a node."""
    return UnknownError(
        f"{error.filename} is not installed on this machine", "install it, for ssh: apt-get install openssh-client"
    )


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
