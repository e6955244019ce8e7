"""What the rails of a cluster can carry.

Rates of links are in Mb/s (bits, as switches are sold), bandwidths of collectives in GB/s (bytes, as nccl-tests prints
them). Every function answers for one direction of full-duplex links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stampworks import catalog


@dataclass(frozen=True)
class LeafLoad:
    """A leaf of one rail: how many nodes hang on it and what its trunk carries, 0 when the rail has no spine."""

    nodes: int
    trunk_mbps: int


@dataclass(frozen=True)
class Ceiling:
    """A predicted number with its derivation."""

    value: float
    why: str


def efficiency(fabric: catalog.Fabric) -> Ceiling:
    """The part of a link's rate that is left for the data of a TCP stream of full packets."""
    data = fabric.mtu_bytes - fabric.headers_bytes
    wire = fabric.mtu_bytes + fabric.framing_bytes
    return Ceiling(
        data / wire,
        f"{data} of the {wire} bytes that count against the rate are data: MTU {fabric.mtu_bytes} less "
        f"{fabric.headers_bytes} of IP and TCP headers, plus {fabric.framing_bytes} of framing",
    )


def gbs(rate_mbps: float, fabric: catalog.Fabric) -> float:
    """GB/s of data that a link of this rate delivers."""
    return rate_mbps * efficiency(fabric).value / 8 / 1000


def ring_ceiling(rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric) -> Ceiling:
    """Bus bandwidth of a ring all-reduce on one rail whose ranks stand in leaf order.

    In a ring of n ranks every link carries 2(n-1)/n of the data, and bus bandwidth is defined as 2(n-1)/n of the data
    over time, so that it equals what the slowest link of the ring delivers, whatever n is.
    """
    trunk = _slowest_trunk(leaves)
    link = f"in a ring every link carries what busbw counts; {_delivered(rate_mbps, fabric)}"
    if trunk is None:
        return Ceiling(gbs(rate_mbps, fabric), link)
    if trunk >= rate_mbps:
        crossing = f"in leaf order the ring crosses a trunk once in each direction, and {trunk} Mb/s carry that"
        return Ceiling(gbs(rate_mbps, fabric), f"{link}; {crossing}")
    crossing = f"in leaf order the ring crosses a trunk once in each direction, and the trunk has {trunk} Mb/s"
    return Ceiling(gbs(trunk, fabric), f"{crossing}; {_delivered(trunk, fabric)}")


def worst_ring_ceiling(rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric) -> Ceiling:
    """The same in the worst order of ranks: neighbours share a leaf as seldom as the leaves' sizes allow."""
    total = sum(leaf.nodes for leaf in leaves)
    crossings = [(min(leaf.nodes, total - leaf.nodes), leaf.trunk_mbps) for leaf in leaves if leaf.trunk_mbps]
    if not crossings:
        raise ValueError("ranks on a single leaf meet no trunk in any order")
    share, nodes, trunk = min((min(rate_mbps, trunk / nodes), nodes, trunk) for nodes, trunk in crossings)
    return Ceiling(
        gbs(share, fabric),
        f"ranks in the worst order, neighbours on different leaves: {nodes} links of the ring share a trunk of "
        f"{trunk} Mb/s, {share:g} Mb/s each where a rail has {rate_mbps} Mb/s",
    )


def bisection_mbps(rate_mbps: int, leaves: Sequence[LeafLoad]) -> int:
    """What half of the nodes can send to the other half on one rail, the halves cut along the leaves.

    That cut is the narrowest: one through leaves would leave more of the traffic inside them. Of the one leaf that the
    middle falls into, nodes reach each other directly, and only what is left over takes the trunks.
    """
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


def _delivered(rate_mbps: int, fabric: catalog.Fabric) -> str:
    part = efficiency(fabric)
    return f"{rate_mbps} Mb/s / 8 x {part.value:.3f} ({part.why})"
