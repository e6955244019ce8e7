"""Who is in a local cluster now."""

from __future__ import annotations

from stampworks.clouds.local.room import read_nodes
from stampworks.clouds.local.room.room import of_cluster
from stampworks.plan import Member, Roster

PATIENCE_S = 20.0
"""Nodes are up when their group is made: one that is missing then has died, and nothing but an `up` starts it."""


def members(cluster: str) -> Roster:
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
