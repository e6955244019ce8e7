"""Parts of a machine room as callers declare them, and as the room keeps them in its files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NetworkSpec:
    """The management network, which every node is on."""

    management_cidr: str
    gateway: str
    """Address of the room on it."""
    pods_cidr: str = ""
    """Range of pod addresses, which nodes reach through the gateway; empty if no pods run."""


@dataclass(frozen=True)
class TrunkSpec:
    """Link from a switch of a rail up to another."""

    leaf: str
    """Lower switch: a leaf, or a spine below a core."""
    rate_mbps: int
    to: str
    """Upper switch."""


@dataclass(frozen=True)
class RailSpec:
    """A NIC of every node, and the switches between these NICs."""

    index: int
    interface: str
    """Name of the NIC on every node."""
    cidr: str
    rate_mbps: int
    trunks: tuple[TrunkSpec, ...]
    """Trunks of the rail; empty if a leaf holds all nodes."""


@dataclass(frozen=True)
class NodeSpec:
    """A node: its addresses and its leaf."""

    name: str
    address: str
    """Address on the management network."""
    rail_addresses: tuple[str, ...]
    """Address on each rail of the node, from the first rail on."""
    leaf: str
    """Switch that its rails are plugged into; empty for a node without rails."""


@dataclass(frozen=True)
class VolumeSpec:
    """A disk of a node that outlives the node's own disk."""

    name: str
    mount: str

    def of_node(self, node: str) -> str:
        """Return the name of the volume among all volumes of the room."""
        return f"{node}-{self.name}"


@dataclass(frozen=True)
class GroupSpec:
    """Nodes with equal properties."""

    nodes: tuple[NodeSpec, ...]
    machine: str
    """Machine type; a node whose machine type changes needs a new disk."""
    accelerators: int
    """Device nodes that stand for accelerators."""
    volumes: tuple[VolumeSpec, ...]
    """Volumes of each node."""


@dataclass(frozen=True)
class ImageSpec:
    """The software in an image, apart from what its installation does."""

    suite: str
    """Suite of Debian."""
    base_packages: tuple[str, ...]
    """Packages of the base system."""
    packages: tuple[str, ...]
    """Packages that the installation and the nodes can install from the image's repository."""
    runs_containers: bool
    """Whether the nodes run pods, and so need a kubelet."""


@dataclass(frozen=True)
class Commission:
    """The inputs that a disk was made for. A node with another commission needs another disk."""

    node: NodeSpec
    machine: str
    accelerators: int
    image: str
    volumes: tuple[VolumeSpec, ...]


# -- files: fields that are not read here were written by an earlier version, which kept more


def network_text(network: NetworkSpec) -> str:
    """Return the text of a room's network.json."""
    pods = {"cidr": network.pods_cidr} if network.pods_cidr else None
    return _text({"management_cidr": network.management_cidr, "gateway": network.gateway, "pods": pods})


def read_network(text: str) -> NetworkSpec:
    """Parse a text of network_text."""
    kept = json.loads(text)
    return NetworkSpec(kept["management_cidr"], kept["gateway"], (kept.get("pods") or {}).get("cidr", ""))


def commission_text(commission: Commission) -> str:
    """Return the text of a disk's node.json."""
    return _text(dataclasses.asdict(commission))


def read_commission(text: str) -> Commission:
    """Parse a text of commission_text. Raise ValueError for any other text."""
    try:
        return _commission(json.loads(text))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no commission: {error!r}") from error


def _commission(kept: Mapping[str, Any]) -> Commission:
    node = kept["node"]
    return Commission(
        NodeSpec(node["name"], node["address"], tuple(node["rail_addresses"]), node["leaf"]),
        kept["machine"],
        kept["accelerators"],
        kept["image"],
        tuple(VolumeSpec(volume["name"], volume["mount"]) for volume in kept["volumes"]),
    )


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
