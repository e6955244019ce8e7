"""A small cluster, and a room driven as the provider drives it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from stampworks import machine_room as room
from stampworks.machine_room.specs import GroupSpec, NetworkSpec, NodeSpec, RailSpec, TrunkSpec, VolumeSpec

NETWORK = NetworkSpec("10.77.0.0/20", "10.77.0.1")
LEAF_NODES = 2


def rails(nodes: int, rate_mbps: int = 200, trunk_mbps: int = 400) -> list[RailSpec]:
    leaves = sorted({f"leaf{1 + index // LEAF_NODES}" for index in range(nodes)})
    trunks = tuple(TrunkSpec(leaf, trunk_mbps, "spine") for leaf in leaves) if len(leaves) > 1 else ()
    return [RailSpec(index, f"rail{index}", f"10.77.{16 * (index + 1)}.0/20", rate_mbps, trunks) for index in range(2)]


def with_spines(rail: RailSpec) -> RailSpec:
    """The same with a spine for each leaf, and a core."""
    trunks = tuple(replace(trunk, to=f"spine1-{number}") for number, trunk in enumerate(rail.trunks, 1))
    cores = tuple(TrunkSpec(trunk.to, 2 * trunk.rate_mbps, "core") for trunk in trunks)
    return replace(rail, trunks=(*trunks, *cores))


def nodes(count: int) -> list[NodeSpec]:
    return [
        NodeSpec(f"gpu-{n:03}", f"10.77.1.{n}", (f"10.77.17.{n}", f"10.77.33.{n}"), f"leaf{1 + (n - 1) // LEAF_NODES}")
        for n in range(1, count + 1)
    ]


def group(count: int, volumes: tuple[VolumeSpec, ...] = ()) -> GroupSpec:
    return GroupSpec(tuple(nodes(count)), "sim-test", 2, volumes)


@dataclass
class Stamp:
    """A cluster's room, operated as the provider does."""

    cluster: str
    image: room.NodeImage
    private_key: str
    public_key: str
    claim: str = "stack test of project test"
    said: list[str] = field(default_factory=list)

    def ensure_room(self, count: int, **rates: int) -> room.RoomState:
        declared = rails(count, **rates)
        keys = self.private_key, self.public_key
        return room.ensure_room(self.cluster, self.claim, NETWORK, declared, *keys, self.said.append)

    def ensure_nodes(self, count: int, *, volumes: tuple[VolumeSpec, ...] = (), **rates: int) -> dict[str, str]:
        declared = rails(count, **rates)
        return room.ensure_nodes(self.cluster, group(count, volumes), declared, self.image, self.said.append)

    def renew_nodes(self, count: int, *names: str, volumes: tuple[VolumeSpec, ...] = ()) -> None:
        room.renew_nodes(self.cluster, group(count, volumes), rails(count), self.image, names, self.said.append)

    def outdated(self, count: int) -> dict[str, str]:
        return room.outdated_nodes(self.cluster, group(count), self.image)

    def ensure_folder(self, kind: room.Kind, name: str) -> Path:
        return room.ensure_folder(self.cluster, self.claim, kind, name)

    def remove(self) -> None:
        room.remove_room(self.cluster, self.claim)

    def up(self, count: int, **rates: int) -> dict[str, str]:
        self.ensure_room(count, **rates)
        return self.ensure_nodes(count, volumes=(), **rates)

    def drift(self, count: int, **rates: int) -> list[str]:
        """Return all deviations from the declaration, in the room's own words."""
        declared, found = rails(count, **rates), {node.name: node for node in room.read_nodes(self.cluster)}
        wrong = [*room.room_drift(room.read_room(self.cluster), NETWORK, declared)]
        for node in nodes(count):
            said = room.node_drift(found[node.name], declared)
            wrong += [f"{node.name}: {what}" for what in said]
        return wrong

    def state(self, name: str) -> room.NodeState:
        return {node.name: node for node in room.read_nodes(self.cluster)}[name]

    def run(self, node: str, *argv: str) -> str:
        done = room.run_in_node(self.cluster, node, argv, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout
