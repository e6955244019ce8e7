"""The list of a cluster's hosts and its key, in a folder of the user's state."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from stampworks.clouds.hosts.shell import Answer, heard, login
from stampworks.plan import Host, Hosts, from_dict, to_dict
from stampworks.state import paths

_KEY, _LIST = "id_ed25519", "hosts.json"
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class ClusterAccess:
    """The hosts of a cluster, and the key with which root logs in to those that it has claimed."""

    hosts: Hosts
    claim: str
    identity_file: str
    public_key: str

    def ask(self, host: Host, argv: list[str], given: str = "") -> Answer:
        """Run a program as root on a claimed host."""
        return heard(host, login(self.hosts, host, "root", self.identity_file, argv), given, TIMEOUT_S)


def folder(cluster: str) -> Path:
    """Return the folder of a cluster on hosts."""
    return paths.state_dir() / "hosts" / cluster


def keep(cluster: str, claim: str, hosts: Hosts, private_key: str, public_key: str) -> None:
    """Write list and key, each atomically."""
    place = folder(cluster)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.write_whole(place / _KEY, private_key, 0o600)
    data = {"claim": claim, "public_key": public_key, "hosts": to_dict(hosts)}
    paths.write_whole(place / _LIST, json.dumps(data, indent=2) + "\n")


def known(cluster: str) -> ClusterAccess | None:
    """Return list and key; None where nothing was stamped from this machine."""
    place = folder(cluster)
    try:
        data = json.loads((place / _LIST).read_text())
        return ClusterAccess(from_dict(Hosts, data["hosts"]), data["claim"], str(place / _KEY), data["public_key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(cluster: str) -> None:
    """Remove list and key."""
    shutil.rmtree(folder(cluster), ignore_errors=True)
