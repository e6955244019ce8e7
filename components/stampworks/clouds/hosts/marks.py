"""Marks on hosts: which cluster has claimed a host, and the node that it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields

from stampworks.clouds.hosts.shell import Answer, ask, everywhere
from stampworks.plan import Host, Hosts

FILE, KEY_FILE = "/etc/stampworks/cluster", "/etc/stampworks/cluster.pub"
MARK_MAX = 4096
"""Bytes of a mark. A longer file is not ours."""
# Machines made of namespaces share the boot id of a kernel, so the start of the first process is part of the identity.
_READ = f"""
if [ -e {FILE} ]; then head -c {MARK_MAX} {FILE} | head -n 1; else echo; fi
head -c 64 /etc/machine-id 2>/dev/null | head -n 1 || echo
echo "$(cat /proc/sys/kernel/random/boot_id)-$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)"
"""
_WRITE = f"""
set -eu
umask 022
mkdir -p /etc/stampworks
printf '%s\\n' "$1" >{FILE}.new
mv {FILE}.new {FILE}
"""
_CLAIM = f"""
set -eu
umask 077
mkdir -p /root/.ssh /etc/stampworks
touch /root/.ssh/authorized_keys
[ -z "$(tail -c 1 /root/.ssh/authorized_keys)" ] || echo >>/root/.ssh/authorized_keys
printf '%s\\n' "$2" >{KEY_FILE}
grep -qxF -- "$2" /root/.ssh/authorized_keys || printf '%s\\n' "$2" >>/root/.ssh/authorized_keys
{_WRITE}"""


@dataclass(frozen=True)
class Mark:
    """A claim of a cluster on a host."""

    cluster: str
    claim: str
    """The claim of the stack, so that two stacks with a cluster of one name are told apart."""
    group: str
    node: str
    """Name of the node that the host is; empty for a host that is refused."""
    commission: str
    """Time at which it became this node; the latest of two hosts with one name counts."""
    made_with: str
    """Digest of the settings that it was configured with first."""
    condemned: str = ""
    """Why it is to be renewed, or refused; empty for a host in order."""

    @property
    def text(self) -> str:
        """Return its line on the host."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class HostState:
    """A host as it answers now."""

    host: Host
    why: str = ""
    """Why it cannot be used; empty for a host that answers."""
    mark: Mark | None = None
    started: str = ""
    """Identity of its run, which changes with a reboot."""

    @property
    def answers(self) -> bool:
        return not self.why

    @property
    def instance(self) -> str:
        """Return the identity of a member, which changes when the host is renewed or restarted."""
        return f"{self.host.id} {self.mark.commission if self.mark else ''} {self.started}"


def states(machines: Iterable[Host], asked: Callable[[Host], Answer]) -> list[HostState]:
    """Return the state of each host, by a function that runs the program of `reading` there."""
    return [_state(answer) for answer in everywhere(machines, asked)]


def reading() -> list[str]:
    """Return the program that prints the mark of a host, its machine id, and the identity of its run."""
    return ["sh", "-c", _READ]


def read(hosts: Hosts, machines: Iterable[Host]) -> list[HostState]:
    """Return the state of each host, asked as the declared user."""
    return states(machines, lambda host: ask(hosts, host, reading()))


def claim(hosts: Hosts, host: Host, mark: Mark, public_key: str) -> str:
    """Mark a host as a node of the cluster, whose key may log in. Return why that failed; empty for success."""
    return _done(ask(hosts, host, ["sh", "-c", _CLAIM, "claim", mark.text, public_key]))


def writing(mark: Mark) -> list[str]:
    """Return the program that writes another mark."""
    return ["sh", "-c", _WRITE, "mark", mark.text]


def write(hosts: Hosts, host: Host, mark: Mark) -> str:
    """Write another mark as the declared user. Return why that failed; empty for success."""
    return _done(ask(hosts, host, writing(mark)))


def _done(answer: Answer) -> str:
    return "" if answer.code == 0 else answer.why


def _state(answer: Answer) -> HostState:
    host = answer.host
    if answer.code != 0:
        return HostState(host, answer.why)
    line, machine_id, started = (*answer.output.splitlines()[:3], "", "", "")[:3]
    if host.machine_id and machine_id.strip() != host.machine_id:
        return HostState(host, f"another machine answers there: its id is {machine_id.strip()[:32]!r}")
    try:
        return HostState(host, mark=mark_of(line) if line.strip() else None, started=started.strip()[:64])
    except ValueError:
        return HostState(host, f"{FILE} on it is not a mark of this version")


def mark_of(line: str) -> Mark:
    """Read a mark; raise ValueError for anything else."""
    data = json.loads(line)
    names = {each.name for each in fields(Mark)}
    if not isinstance(data, dict) or set(data) != names or not all(isinstance(each, str) for each in data.values()):
        raise ValueError("not a mark")
    return Mark(**data)
