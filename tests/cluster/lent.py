"""Machines made of namespaces that stand for hosts of somebody's own: reached by ssh at ports of the loopback."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stampworks import machine_room as room
from stampworks.configuration import install_digest
from stampworks.declaration import load_value
from stampworks.machine_room.specs import GroupSpec, NetworkSpec, NodeSpec, RailSpec
from stampworks.planning import plan
from stampworks.provider.node_image import ensure_node_image

from tests.cluster.stack import Stack

DECLARED = {
    "version": 1,
    "name": "x",
    "cloud": "local",
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
}
"""A cluster whose release the machines boot."""
DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: hosts
    network: {{egress: none}}
    hosts:
      identity_file: {identity_file}
      machines: {machines}
    pools:
      - {{name: gpu, machine: sim-h100, count: 2}}
    storage:
      - {{name: shared, kind: directory, mount: /shared, existing: /exports/shared, protect: false}}
    users: [{{name: alice, uid: 2001}}]
    scheduler: {{drain_timeout_minutes: 1, protect: false}}
    proof: {{level: {level}}}
"""
LISTING = r"""
list() {
    find / -xdev \( -path /tmp -o -path /var/log -o -path /exports -o -path '/etc/*-' -o -name supervise \) -prune \
        -o "$@"
}
list ! -type d -printf '%p %y %m %U %G %l\n'
list -type d -printf '%p %y %m %U %G\n'
list -path '/etc/*' -type f ! -name '*-' -exec sha256sum {} +
hostname
ps -eo user,args --no-headers | grep -v '\]$\|sed s\|ps -eo\|sshd\|sh -c\|grep' | sed 's/ [0-9]* of .*//'
"""
NETWORK = NetworkSpec("10.98.0.0/20", "10.98.0.1")
RAILS = tuple(RailSpec(index, f"rail{index}", f"10.98.{16 * (index + 1)}.0/20", 200, ()) for index in range(2))
HEADS, OTHERS = GroupSpec((NodeSpec("h0", "10.98.0.2", (), ""),), "sim-cpu", 0, ()), "sim-h100"


@dataclass
class LentHosts:
    """Machines in a room of their own, which the toolkit knows by address, host key and machine id alone."""

    name: str
    folder: Path
    """Folder of the key that logs in to them."""
    count: int
    """Number of machines beside the one for the head."""
    said: list[str] = field(default_factory=list)
    found: dict[str, set[str]] = field(default_factory=dict)
    """Files, accounts and processes of each machine, when it was lent."""

    claim = "machines that are lent"

    @property
    def identity_file(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        return tuple(
            NodeSpec(f"h{n}", f"10.98.1.{n}", (f"10.98.17.{n}", f"10.98.33.{n}"), "leaf1")
            for n in range(1, self.count + 1)
        )

    @property
    def groups(self) -> dict[str, str]:
        """Return the group of each machine: the first is the head."""
        return {"h0": "head", **{node.name: "gpu" for node in self.nodes}}

    def declare(self, stack: Stack, level: str = "none") -> None:
        """Write the declaration of a cluster of two nodes on them, and its lock."""
        machines = json.dumps([self.listed(host, group) for host, group in self.groups.items()])
        stack.declare(
            DECLARATION.format(cluster=stack.cluster, identity_file=self.identity_file, machines=machines, level=level)
        )
        locked = [self.locked(host, group) for host, group in self.groups.items()]
        lock = {"version": 1, "region": "", "images": {}, "hosts": locked}
        (stack.folder / "stacks" / "test.lock.json").write_text(json.dumps(lock))

    def nodes_of(self) -> dict[str, str]:
        """Return the name of the node that each machine is."""
        found = {}
        for host in self.alive():
            if mark := self.run(host, "sh", "-c", "cat /etc/stampworks/cluster || true").strip():
                found[host] = json.loads(mark)["node"]
        return found

    def start(self) -> None:
        """Start the machines with the node image."""
        release = plan(load_value(DECLARED, "test")).release
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.identity_file)], check=True)
        keys = self.identity_file.read_text(), self.identity_file.with_suffix(".pub").read_text().strip()
        image = ensure_node_image(release, install_digest(), self.said.append)
        room.ensure_room(self.name, self.claim, NETWORK, RAILS, *keys, self.said.append)
        room.ensure_nodes(self.name, HEADS, (), image, self.said.append)
        room.ensure_nodes(self.name, GroupSpec(self.nodes, OTHERS, 8, ()), RAILS, image, self.said.append)
        room.ensure_folder(self.name, self.claim, "exports", "shared")
        self.found = {host: self.look(host) for host in self.alive()}

    def remove(self) -> None:
        room.remove_room(self.name, self.claim)

    def alive(self) -> list[str]:
        return [node.name for node in room.read_nodes(self.name) if node.alive]

    def end(self, host: str) -> None:
        room.end_nodes(self.name, self.claim, [host], self.said.append)

    def changed(self, host: str) -> list[str]:
        """Return the files, accounts and processes that are there and were not, or the other way round."""
        return sorted(self.found[host] ^ self.look(host))

    def look(self, host: str) -> set[str]:
        return set(self.run(host, "sh", "-c", LISTING).splitlines())

    def run(self, host: str, *argv: str) -> str:
        done = room.run_in_node(self.name, host, argv, timeout=60)
        assert done.returncode == 0, f"{host}: {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def port(self, host: str) -> int:
        address = {node.name: node.address for node in (*HEADS.nodes, *self.nodes)}[host]
        return room.open_door(self.name, f"ssh-{host}", address, 22)

    def listed(self, host: str, group: str) -> dict[str, Any]:
        """Return the entry of a host in a declaration."""
        address = {node.name: node.address for node in (*HEADS.nodes, *self.nodes)}[host]
        return {"address": "127.0.0.1", "port": self.port(host), "inside": address, "group": group}

    def locked(self, host: str, group: str) -> dict[str, Any]:
        """Return the entry of a host in a lock."""
        rails = {node.name: node.rail_addresses for node in self.nodes}.get(host, ())
        return {
            **self.listed(host, group),
            "host_key": self.run(host, "cat", "/etc/ssh/ssh_host_ed25519_key.pub").strip(),
            "machine_id": self.run(host, "cat", "/etc/machine-id").strip(),
            "rack": "",
            "rails": [{"interface": f"rail{n}", "address": f"{each}/20"} for n, each in enumerate(rails)],
        }
