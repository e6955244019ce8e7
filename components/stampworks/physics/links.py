"""The rates that the rails of a cluster can carry.

Rates of links are in Mb/s (bits, as switches are sold), bandwidths of collectives in GB/s (bytes, as nccl-tests prints
them). Every function describes one direction of full-duplex links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stampworks import catalog
from stampworks.physics.bounds import Bound


@dataclass(frozen=True)
class LeafLoad:
    """A leaf of one or several rails: the number of its nodes, and the rate of its trunks, 0 when there is no spine."""

    nodes: int
    trunk_mbps: int


def leaf_loads(leaf_of_node: Iterable[str], trunk_mbps: Mapping[str, int]) -> list[LeafLoad]:
    """Return the loads of these nodes' leaves, in their order. Nodes on a single leaf cross no trunk."""
    nodes = Counter(leaf_of_node)
    return [LeafLoad(count, trunk_mbps.get(leaf, 0) if len(nodes) > 1 else 0) for leaf, count in nodes.items()]


def efficiency(fabric: catalog.Fabric) -> Bound:
    """Return the part of a link's rate that is data in a TCP stream of full packets."""
    data = fabric.mtu_bytes - fabric.headers_bytes
    wire = fabric.mtu_bytes + fabric.framing_bytes
    return Bound(
        data / wire,
        f"{data}/{wire}, the part of the bytes on the link that is data (MTU {fabric.mtu_bytes}, less "
        f"{fabric.headers_bytes} of IP and TCP headers; plus {fabric.framing_bytes} of framing)",
    )


def gbs(rate_mbps: float, fabric: catalog.Fabric) -> float:
    """Return the data rate of a link in GB/s."""
    return rate_mbps * efficiency(fabric).value / 8 / 1000


def ring_ceiling(rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric) -> Bound:
    """Return the bus bandwidth of a ring all-reduce on one rail whose ranks are in leaf order.

    In a ring of n ranks every link carries 2(n-1)/n of the data. Bus bandwidth is defined as 2(n-1)/n of the data over
    time. So it equals the rate of the ring's slowest link, whatever n is.
    """
    trunk = _slowest_trunk(leaves)
    slowest = rate_mbps if trunk is None else min(rate_mbps, trunk)
    link = f"a ring's busbw is what its slowest link delivers: {slowest} Mb/s / 8 x {efficiency(fabric).why}"
    if trunk is None:
        return Bound(gbs(slowest, fabric), f"{link}; all ranks share a leaf")
    verdict = "enough" if trunk >= rate_mbps else "not enough"
    crossing = f"in leaf order it crosses a trunk once in each direction, whose {trunk} Mb/s are {verdict}"
    return Bound(gbs(slowest, fabric), f"{link}; {crossing}")


def worst_ring_ceiling(rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric) -> Bound:
    """Return the bus bandwidth in the worst order of ranks: neighbours share a leaf as seldom as the leaves' sizes
    allow."""
    total = sum(leaf.nodes for leaf in leaves)
    crossings = [(min(leaf.nodes, total - leaf.nodes), leaf.trunk_mbps) for leaf in leaves if leaf.trunk_mbps]
    if not crossings:
        raise ValueError("ranks on a single leaf meet no trunk in any order")
    nodes, trunk = min(crossings, key=lambda crossing: (crossing[1] / crossing[0], -crossing[0]))
    share = min(rate_mbps, trunk / nodes)
    return Bound(
        gbs(share, fabric),
        f"the same with neighbours on different leaves: {nodes} links of the ring share a trunk of {trunk} Mb/s, which "
        f"leaves each {share:g} of the {rate_mbps} Mb/s of its rail",
    )


def bisection_mbps(rate_mbps: int, leaves: Sequence[LeafLoad]) -> int:
    """Return the rate at which half of the nodes can send to the other half on one rail, with the halves cut along the
    leaves.

    No other cut of a pool is narrower. Its leaves are equal except for the last, so that both ends are tried. A cut
    through more leaves would keep more of the traffic inside them.
    """
    return min(_halves_mbps(rate_mbps, leaves), _halves_mbps(rate_mbps, leaves[::-1]))


def _halves_mbps(rate_mbps: int, leaves: Sequence[LeafLoad]) -> int:
    """Return the rate for the first half in this order. In the leaf that is cut, nodes reach each other without the
    trunk."""
    left = sum(leaf.nodes for leaf in leaves) // 2
    inside = sent = received = 0
    for leaf in leaves:
        here = min(leaf.nodes, left)
        left -= here
        there = leaf.nodes - here
        both = min(here, there)
        inside += both * rate_mbps
        sent += min(leaf.trunk_mbps, (here - both) * rate_mbps)
        received += min(leaf.trunk_mbps, (there - both) * rate_mbps)
    return inside + min(sent, received)


def _slowest_trunk(leaves: Sequence[LeafLoad]) -> int | None:
    return min((leaf.trunk_mbps for leaf in leaves if leaf.trunk_mbps), default=None)
