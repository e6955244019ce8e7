"""Programs on hosts, by ssh, as the user that the declaration names, or as root with the cluster's own key."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stampworks.plan import Host, Hosts, JumpHost

AT_ONCE = 32
"""Hosts that are asked at the same time."""
TIMEOUT_S = 20.0
BYTES_MAX = 4 << 20
_ALIAS = "host"
_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ControlMaster=no",
    "ControlPath=none",
    "GlobalKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=10",
    "StrictHostKeyChecking=yes",
    "UserKnownHostsFile=/dev/null",
)


@dataclass(frozen=True)
class Answer:
    """The answer of a host to one program."""

    host: Host
    code: int
    """Exit code; 255 for a host that ssh did not reach."""
    output: str
    errors: str

    @property
    def reached(self) -> bool:
        return self.code != 255

    @property
    def why(self) -> str:
        """Return the last line of its errors."""
        lines = self.errors.strip().splitlines()
        return lines[-1] if lines else f"exit code {self.code}, without a word"


def target(host: Host) -> str:
    """Return the address for ssh, with its port if that is another one."""
    return host.address if host.port == 22 else f"ssh://{host.address}:{host.port}"


def jump(via: JumpHost | None, identity_file: str) -> tuple[str, ...]:
    """Return the command by which ssh goes through another machine; empty where hosts are reached directly."""
    if via is None:
        return ()
    return (
        "ssh",
        *_options(via.host_key, identity_file),
        "-W",
        "[%h]:%p",
        "-p",
        str(via.port),
        "-l",
        via.user,
        "--",
        via.address,
    )


def login(hosts: Hosts, host: Host, user: str, identity_file: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs a program as root on a host, logged in as this user."""
    line = shlex.join([*([] if user == "root" else ["sudo", "-n", "--"]), *argv])
    through = jump(hosts.via, hosts.identity_file)
    proxy = ["-o", f"ProxyCommand={shlex.join(through)}"] if through else []
    return ["ssh", *_options(host.host_key, identity_file), *proxy, "-l", user, "--", target(host), line]


def ask(hosts: Hosts, host: Host, argv: Sequence[str], given: str = "", timeout_s: float = TIMEOUT_S) -> Answer:
    """Run a program as root on a host, logged in as the declared user, with this input."""
    return heard(host, login(hosts, host, hosts.user, hosts.identity_file, argv), given, timeout_s)


def heard(host: Host, command: Sequence[str], given: str, timeout_s: float) -> Answer:
    """Run an ssh command, with a time limit."""
    try:
        done = subprocess.run(command, input=given.encode(), capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return Answer(host, 255, "", f"no answer within {timeout_s:.0f} s")
    except FileNotFoundError:
        return Answer(host, 255, "", "ssh is not installed on this machine")
    output, errors = (text[:BYTES_MAX].decode(errors="replace") for text in (done.stdout, done.stderr))
    return Answer(host, done.returncode, output, errors)


def everywhere(machines: Iterable[Host], asked: Callable[[Host], Answer]) -> list[Answer]:
    """Ask many hosts at once, and return the answers in the order of the hosts."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(asked, machines))


def _options(host_key: str, identity_file: str) -> list[str]:
    """Return ssh's options. Its only known host key is the one of the lock, whatever files of the user say."""
    key = " ".join(host_key.split()[:2])
    options = [*_OPTIONS, f"HostKeyAlias={_ALIAS}", f"KnownHostsCommand=/bin/echo {_ALIAS} {key}"]
    options += ["IdentitiesOnly=yes"] if identity_file else []
    identity = ["-i", str(Path(identity_file).expanduser()).replace("%", "%%")] if identity_file else []
    return ["-F", "none", *identity, *(word for option in options for word in ("-o", option))]
