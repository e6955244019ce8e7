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


def interleaved_ring_ceiling(rate_mbps: int, leaves: Sequence[LeafLoad], fabric: catalog.Fabric) -> Ceiling:
    """The same when neighbours in the ring never share a leaf: then all nodes of a leaf send through its trunk at once."""
    shares = [(min(rate_mbps, leaf.trunk_mbps / leaf.nodes), leaf) for leaf in leaves if leaf.trunk_mbps]
    if not shares:
        raise ValueError("ranks of a single leaf cannot be interleaved across leaves")
    share, worst = min(shares, key=lambda pair: pair[0])
    return Ceiling(
        gbs(share, fabric),
        f"neighbours in the ring on different leaves: {worst.nodes} nodes of a leaf share its trunk of "
        f"{worst.trunk_mbps} Mb/s, {share:g} Mb/s each of the {rate_mbps} Mb/s of a rail",
    )


def bisection_mbps(rate_mbps: int, leaves: Sequence[LeafLoad]) -> float:
    """What half of the nodes can send to the other half on one rail, the halves cut along the leaves."""
    if len(leaves) == 1:
        return leaves[0].nodes / 2 * rate_mbps
    return sum(min(leaf.trunk_mbps, leaf.nodes * rate_mbps) for leaf in leaves) / 2


def _slowest_trunk(leaves: Sequence[LeafLoad]) -> int | None:
    return min((leaf.trunk_mbps for leaf in leaves if leaf.trunk_mbps), default=None)


def _delivered(rate_mbps: int, fabric: catalog.Fabric) -> str:
    part = efficiency(fabric)
    return f"{rate_mbps} Mb/s / 8 x {part.value:.3f} ({part.why})"
