"""Plain hosts for tests: nodes of the machine room with the base system alone, reached by ssh through a door."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stampworks import machine_room as room
from stampworks.clouds.local.rooms import image_spec
from stampworks.plan import Host, Hosts

from tests.playbooks.conftest import CLAIM, Cluster, plan_of

PACKAGES = "Types: deb\nURIs: file:/exports/.packages\nSuites: ./\nTrusted: yes"
LISTING = r"""
find / -xdev \( -path /tmp -o -path '/var/log/*' -o -path /exports \) -prune -o ! -type d -printf '%p %y %m %U %G %l\n'
find / -xdev \( -path /tmp -o -path '/var/log/*' -o -path /exports \) -prune -o -type d -printf '%p %y %m %U %G\n'
find /etc /usr/local /home /root /srv /opt /usr/bin -xdev -type f -exec sha256sum {} +
"""


@dataclass
class Plain:
    """A cluster whose nodes have nothing of ours, as hosts."""

    cluster: Cluster
    hosts: Hosts

    @property
    def host(self) -> Host:
        return self.hosts.machines[0]

    def shell(self, command: str, timeout: float = 120) -> str:
        return self.cluster.shell(self.host.inside, command, timeout)

    def listing(self) -> set[str]:
        """Return all files with their settings and contents, as programs of the host say it."""
        return {*self.shell(LISTING).splitlines()}


@contextlib.contextmanager
def plain_hosts(folder: Path, count: int, **fields: Any) -> Iterator[Plain]:
    """Boot nodes with the base system of the release, and packages that they could install; gone afterwards."""
    plan = plan_of(f"t{uuid.uuid4().hex[:8]}", count, **fields)
    key = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    image = room.ensure_image(image_spec(plan.release), lambda builder: None, "plain hosts of tests", print)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAMPWORKS_STATE", str(folder / "state"))
        cluster = Cluster(plan, key, image)
        try:
            cluster.boot()
            machines = tuple(
                Host(
                    address="127.0.0.1",
                    port=room.open_door(plan.name, member.name, member.address, 22),
                    inside=member.name,
                    host_key=member.host_key,
                    machine_id="",
                    group=member.group,
                    rack="",
                    rails=(),
                )
                for member in cluster.roster.members
            )
            yield Plain(cluster, Hosts("", "root", str(key), None, machines))
        finally:
            room.remove_room(plan.name, CLAIM)
