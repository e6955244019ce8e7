"""Bounds of collectives on the rails of the local cloud: one rank a node, TCP, links with declared rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf, log2

from stampworks import catalog
from stampworks.physics import links
from stampworks.physics.bounds import Bound, Bounds, figure
from stampworks.physics.collectives import Operation, bus_factor, size
from stampworks.physics.links import LeafLoad

ROUND_US = 10.0
"""The minimum time of a message between two network namespaces, on any machine."""
CROWDED_ROUND_US = 15_000.0
"""The longest observed time of a round with more ranks than cores."""
SHAPER_SHARE = 1.02
"""Accuracy of a shaper: 192 Mb/s of data were measured, and 191.3 fit."""
HEALTHY_SHARE = 0.75
"""Minimum share of a healthy link: measured collectives come within 4 % of the ceiling, and a link at half its rate
reaches half of it."""
HEALTHY_SHARES: Mapping[Operation, float] = {"all_to_all": 0.4, "send_recv": 0.55}
"""Minimum share if all ranks send independently, and streams take turns on a link. Healthy links reached 0.53 and 0.63
of the ceiling, and a link at half its rate reached half of that."""


def collective_on_rails(
    operation: Operation,
    size_bytes: int,
    rate_mbps: int,
    leaves: Sequence[LeafLoad],
    fabric: catalog.Fabric,
    rails: int = 1,
    worst_order: bool = False,
) -> Bounds:
    """Return the bounds of a collective with a rank on each node over rails of this rate, in leaf order or in the worst
    order."""
    ranks = sum(leaf.nodes for leaf in leaves)
    if ranks < 2 or size_bytes < 1:
        raise ValueError("a collective has at least two ranks and a byte")
    link = _slowest_link(operation, rate_mbps, leaves, fabric, worst_order)
    moved = bus_factor(operation, ranks) * size_bytes / rails
    rounds = _rounds(operation, ranks)
    fastest_mbps = max(rate_mbps, *(leaf.trunk_mbps for leaf in leaves))
    burst = max(fabric.burst_bytes_min, fastest_mbps * fabric.burst_bytes_per_mbps)
    quickest_us = ceil(log2(ranks)) * ROUND_US + max(0.0, moved - burst) / (SHAPER_SHARE * link.value) / 1000
    share = HEALTHY_SHARES.get(operation, HEALTHY_SHARE)
    slowest_us = rounds * CROWDED_ROUND_US + moved / (share * link.value) / 1000
    together = f"; {rails} rails share the data" if rails > 1 else ""
    return Bounds(
        Bound(
            rails * moved / quickest_us / 1000,
            f"{link.why}{together}; {size(size_bytes)} take {figure(quickest_us / 1000)} ms or more, of which a "
            f"burst of {size(burst)} passes unshaped and a shaper is exact to {SHAPER_SHARE - 1:.0%}",
        ),
        Bound(
            rails * moved / slowest_us / 1000,
            f"{figure(share)} of what the slowest link delivers, less {rounds} rounds of "
            f"{figure(CROWDED_ROUND_US / 1000)} ms: {_healthy(operation)}, and a link at half its rate reaches half of "
            "what they do",
        ),
    )


def _slowest_link(
    operation: Operation, rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric, worst_order: bool
) -> Bound:
    if operation == "all_to_all":
        return _all_to_all_link(rate_mbps, leaves, fabric)
    ring = links.ring_ceiling(rate_mbps, leaves, fabric)
    if not worst_order or not any(leaf.trunk_mbps for leaf in leaves):
        return ring
    worst = links.worst_ring_ceiling(rate_mbps, leaves, fabric)
    return Bound(worst.value, f"{ring.why}; {worst.why}")


def _all_to_all_link(rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric) -> Bound:
    """Return the rate of an all-to-all. All orders of ranks are equal: a trunk carries everything that leaves its
    leaf."""
    ranks = sum(leaf.nodes for leaf in leaves)
    trunks = [
        leaf.trunk_mbps * (ranks - 1) / (leaf.nodes * (ranks - leaf.nodes)) if leaf.trunk_mbps else inf
        for leaf in leaves
    ]
    share_mbps = min(rate_mbps, *trunks)
    why = f"an all-to-all gets {figure(share_mbps)} Mb/s of each rail, x {links.efficiency(fabric).why}"
    trunk = f"; a trunk carries what its leaf sends to {ranks - 1} others" if share_mbps < rate_mbps else ""
    return Bound(links.gbs(share_mbps, fabric), why + trunk)


def _healthy(operation: Operation) -> str:
    if operation in HEALTHY_SHARES:
        return "streams that take turns on a healthy link get more than half of the ceiling"
    return "healthy ones come within 4 % of the ceiling"


def _rounds(operation: Operation, ranks: int) -> int:
    """Return how often a rank waits for another in the plain algorithm."""
    return {"all_reduce": 2 * (ranks - 1), "send_recv": 1}.get(operation, ranks - 1)
