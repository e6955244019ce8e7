"""Host keys that machines show. They are never trusted by themselves: a person confirms them."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stampworks.clouds.hosts.answers import plain
from stampworks.clouds.hosts.shell import ALIAS, TIMEOUT_S, Answer, everywhere, heard, jump, target
from stampworks.plan import Host, Hosts

ALGORITHMS = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
"""The best one first: a host shows one key, and that one is locked."""
_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ControlMaster=no",
    "ControlPath=none",
    "GlobalKnownHostsFile=/dev/null",
    "HashKnownHosts=no",
    f"HostKeyAlias={ALIAS}",
    f"HostKeyAlgorithms={ALGORITHMS}",
    "LogLevel=ERROR",
    # the key is shown before the login, which is not tried
    "PreferredAuthentications=none",
    "StrictHostKeyChecking=accept-new",
    "UpdateHostKeys=no",
)


@dataclass(frozen=True)
class ShownKey:
    """The answer of a machine whose host key is not known yet."""

    key: str
    """Type and key; empty if it showed none."""
    why: str
    """Reason when it showed none."""


def shown_keys(hosts: Hosts, machines: Sequence[Host]) -> Mapping[Host, ShownKey]:
    """Return the host key that each machine shows, in the way in which ssh will reach it."""
    with tempfile.TemporaryDirectory(prefix="stampworks-keys-") as folder:
        files = {host: Path(folder) / str(index) for index, host in enumerate(machines)}
        answers = everywhere(machines, lambda host: _shown(hosts, host, files[host]))
        return {answer.host: _key(answer, files[answer.host]) for answer in answers}


def _shown(hosts: Hosts, host: Host, file: Path) -> Answer:
    through = jump(hosts.via, hosts.identity_file)
    options = [*_OPTIONS, f"UserKnownHostsFile={file}", *([f"ProxyCommand={shlex.join(through)}"] if through else [])]
    words = [word for option in options for word in ("-o", option)]
    command = ["ssh", "-F", "none", *words, "-l", hosts.user, "--", target(host), "true"]
    return heard(host, command, "", TIMEOUT_S)


def _key(answer: Answer, file: Path) -> ShownKey:
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    for line in lines:
        alias, _, key = line.partition(" ")
        if alias == ALIAS and len(key.split()) == 2:
            return ShownKey(key, "")
    return ShownKey("", plain(answer.why))
