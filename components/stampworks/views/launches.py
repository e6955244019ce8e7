"""Launches of nodes by a cloud, and their way to the internet."""

from __future__ import annotations

from stampworks.plan import Launch, Network, Plan
from stampworks.text.names import fold
from stampworks.views.table import paragraph, sparse


def lines(plan: Plan, width: int) -> list[str]:
    """Return how a cloud starts the nodes, and how these reach the internet."""
    rows = [
        (
            group.name,
            launch.instance_type,
            launch.image or "not looked up",
            f"{launch.disk_gib} GiB",
            _cards(launch),
            "together" if launch.placed_together else "",
        )
        for group in plan.groups
        if (launch := group.launch)
    ]
    if not rows:
        return []
    return [
        "How nodes start",
        *sparse(("group", "type", "image", "disk", "NICs", "placed"), rows, width),
        *paragraph(_reach(plan.network), width, ""),
    ]


def _reach(network: Network) -> str:
    """Say how nodes reach the internet."""
    if network.existing:
        by = {"nat": "by its routes", "none": "only through its endpoints"}[network.egress or "none"]
        return f"They are in {network.existing.vpc}, and reach the internet {by}"
    way = {"nat": "through NAT", "none": "only through the endpoints"}[network.egress or "none"]
    return f"They reach the internet {way}. Endpoints: {', '.join(network.endpoints) or 'none'}"


def _cards(launch: Launch) -> str:
    own = [each for each in launch.interfaces if not each.fabric]
    cards = fold(str(each.card) for each in launch.interfaces if each.fabric)
    addressed = ", each with an address" if launch.interfaces[-1].address else ""
    parts = ([f"{len(own)}"] if own else []) + ([f"for the fabric cards {cards}{addressed}"] if cards else [])
    return ", and ".join(parts)
