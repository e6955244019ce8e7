"""Directories that hosts share already."""

from __future__ import annotations

from stampworks.clouds.hosts.errors import HostError
from stampworks.clouds.hosts.shell import ask, everywhere
from stampworks.plan import Hosts

_LOOK = 'test -d "$1" || { echo "there is no directory $1" >&2; exit 1; }'


def expect(hosts: Hosts, path: str) -> None:
    """Raise an error that names all hosts without the directory."""
    if lacking := without(hosts, path):
        why = "\n  ".join(f"{host}: {why}" for host, why in lacking.items())
        hint = "mount it there, or correct `existing` of the storage"
        raise HostError(path, "not every host has the shared directory", why, hint)


def without(hosts: Hosts, path: str) -> dict[str, str]:
    """Return the hosts that answer and lack the directory, and why. Silent ones are the business of their group."""
    answers = everywhere(hosts.machines, lambda host: ask(hosts, host, ["sh", "-c", _LOOK, "look", path]))
    return {each.host.id: each.why for each in answers if each.code != 0 and each.reached}
