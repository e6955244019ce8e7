"""Members of a local cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from stampworks.machine_room import read_nodes
from stampworks.machine_room.room import of_cluster
from stampworks.plan import Ending, Member, Refusal, Roster

PATIENCE_S, POLL_S = 20.0, 0.5
"""Seconds to wait, and between polls. Nodes are up when their group is created. A missing node has died, and only an
`up` starts it."""


def members(cluster: str, region: str) -> Roster:  # noqa: ARG001  (a room is known by its cluster alone)
    """Return the nodes that are up, without dead or frozen ones."""
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
    """Return none: the machine is the user's own."""
    return ()


def refusals(cluster: str, region: str, groups: Iterable[str]) -> tuple[Refusal, ...]:  # noqa: ARG001
    """Return none: a node that does not start fails the creation of its group."""
    return ()


def join(cluster: str, region: str, names: Mapping[str, Sequence[str]]) -> None:
    """Do nothing: nodes have their names, and are up, when their group is created."""


def retag(cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
    """Do nothing: the local cloud is free."""


def misplaced(cluster: str, region: str, always: Mapping[str, Sequence[str]]) -> list[str]:  # noqa: ARG001
    """Return none: unwanted nodes are removed with the change of their group."""
    return []


def dismiss(cluster: str, region: str, always: Mapping[str, Sequence[str]], names: Iterable[str]) -> None:
    """Do nothing: no node is misplaced."""
