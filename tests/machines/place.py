"""Surroundings of machines in a cluster on AWS: a network with addresses, a metadata service, the calls that
they make, and packages. AWS itself is simulated, and the network is a room's.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stampworks import machine_room as room
from stampworks.clouds.local.rooms import network_spec
from stampworks.machine_room.network import MANAGEMENT
from stampworks.plan import Plan

from tests.clouds.aws import metadata
from tests.clouds.aws.simulated import Simulated
from tests.machines.emulated import Disk, Emulated
from tests.playbooks import tunnel
from tests.playbooks.conftest import CLAIM
from tests.playbooks.test_joining import surrounded

PACKAGES_PORT = 8001


@dataclass
class Place:
    folder: Path
    reach: tuple[str, ...]
    gateway: str
    aws: Simulated
    stack: contextlib.ExitStack
    instances: dict[str, str] = field(default_factory=dict)
    """Instances by address."""
    notices: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Announcements of the metadata service to a machine, by its address."""

    @property
    def packages(self) -> str:
        """A stanza of apt's sources."""
        return f"Types: deb\nTrusted: yes\nSuites: ./\nURIs: http://{self.gateway}:{PACKAGES_PORT}\n"

    def boot(self, name: str, instance: str, address: str, disks: Sequence[Disk], *devices: str) -> Emulated:
        """Boot the machine of an instance, which ends with the test's network."""
        self.instances[address] = instance
        self.tunnels()
        made = Emulated(name, self.folder, self.reach, metadata.mac_of(address), disks, devices)
        made.plug_in()
        made.switch_on()
        self.stack.callback(made.lose_power)
        return made

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of programs that use AWS and its machines."""
        return {**self.aws.environment, **self.tunnels()}

    def tunnels(self) -> dict[str, str]:
        return tunnel.put_into(self.folder, self.reach, {id_: where for where, id_ in self.instances.items()})


@contextlib.contextmanager
def placed(local: Plan, folder: Path, aws: Simulated, key: Path, addresses: Sequence[str]) -> Iterator[Place]:
    """Yield instances on the network of a local plan, with the packages of the folder `packages`."""
    identity = (key.read_text(), key.with_suffix(".pub").read_text())
    with contextlib.ExitStack() as stack:
        stack.callback(room.remove_room, local.name, CLAIM)
        room.ensure_room(local.name, CLAIM, network_spec(local.network), (), *identity, print)
        made = Place(folder, room.reach(local.name), local.network.gateway, aws, stack)
        stack.enter_context(surrounded(made.reach, made.gateway, aws, made.instances, made.notices))
        serve = [sys.executable, "-IS", "-m", "http.server", "--directory", str(folder / "packages")]
        for argv in ([*serve, "--bind", made.gateway, f"{PACKAGES_PORT}"], _dhcp(made.gateway, addresses, folder)):
            stack.enter_context(_running([*made.reach, *argv], folder))
        yield made


def _dhcp(gateway: str, addresses: Sequence[str], folder: Path) -> list[str]:
    """Return a DHCP server that gives each interface its assigned address, as a VPC does."""
    argv = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file="]
    argv += [f"--interface={MANAGEMENT}", "--bind-interfaces", f"--dhcp-leasefile={folder / 'leases'}"]
    argv += [f"--dhcp-range={gateway},static", f"--dhcp-option=option:router,{gateway}"]
    return argv + [f"--dhcp-host={metadata.mac_of(each)},{each}" for each in addresses]


@contextlib.contextmanager
def _running(argv: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[Any]]:
    with (folder / "servers.said").open("ab") as said:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
