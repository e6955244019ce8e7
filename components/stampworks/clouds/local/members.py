"""Who is in a local cluster now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from stampworks.machine_room import read_nodes
from stampworks.machine_room.room import of_cluster
from stampworks.plan import Ending, Member, Refusal, Roster

PATIENCE_S, POLL_S = 20.0, 0.5
"""Nodes are up when their group is made: one that is missing then has died, and nothing but an `up` starts it."""


def members(cluster: str, region: str) -> Roster:  # noqa: ARG001  (a room is known by its cluster alone)
    """The nodes that are up; one that is dead or frozen is not among them."""
    room = of_cluster(cluster)
    if room.process is None:
        return Roster(cluster, "local", (), "root", str(room.identity_file), ())
    found = [
        Member(
            name=node.name,
            group=node.group,
            instance=node.instance,
            address=node.address,
            rail_addresses=node.rail_addresses,
            host_key=node.host_key,
        )
        for node in read_nodes(cluster)
        if node.alive
    ]
    return Roster(cluster, "local", room.reach, "root", str(room.identity_file), tuple(found))


def endings(cluster: str, region: str) -> tuple[Ending, ...]:  # noqa: ARG001
    """None: nobody takes a machine of one's own back."""
    return ()


def refusals(cluster: str, region: str, groups: Iterable[str]) -> tuple[Refusal, ...]:  # noqa: ARG001
    """None: what cannot be started ends the making of its group."""
    return ()


def join(cluster: str, region: str, names: Mapping[str, Sequence[str]]) -> None:
    """Nodes have their names, and are up, when their group is made."""


def retag(cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
    """Nobody sends a bill."""


def misplaced(cluster: str, region: str, always: Mapping[str, Sequence[str]]) -> list[str]:  # noqa: ARG001
    """None: nodes that nobody wants any more go when their group is made."""
    return []


def dismiss(cluster: str, region: str, always: Mapping[str, Sequence[str]], names: Iterable[str]) -> None:
    """Nobody is left who could go."""
