"""Machines made of namespaces that stand for hosts of somebody's own: reached by ssh at ports of the loopback."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stampworks import machine_room as room
from stampworks.configuration import install_digest
from stampworks.machine_room.specs import GroupSpec, NetworkSpec, NodeSpec, RailSpec
from stampworks.plan import Release
from stampworks.provider.node_image import ensure_node_image

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

    def start(self, release: Release) -> None:
        """Start the machines with the node image of a release."""
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.identity_file)], check=True)
        keys = self.identity_file.read_text(), self.identity_file.with_suffix(".pub").read_text().strip()
        image = ensure_node_image(release, install_digest(), self.said.append)
        room.ensure_room(self.name, self.claim, NETWORK, RAILS, *keys, self.said.append)
        room.ensure_nodes(self.name, HEADS, (), image, self.said.append)
        room.ensure_nodes(self.name, GroupSpec(self.nodes, OTHERS, 8, ()), RAILS, image, self.said.append)
        room.ensure_folder(self.name, self.claim, "exports", "shared")

    def remove(self) -> None:
        room.remove_room(self.name, self.claim)

    def alive(self) -> list[str]:
        return [node.name for node in room.read_nodes(self.name) if node.alive]

    def end(self, host: str) -> None:
        room.end_nodes(self.name, self.claim, [host], self.said.append)

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
