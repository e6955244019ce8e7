"""Check whether collectives use the fabric, by counters of the NICs and not by settings of libraries.

All other measurements name their network. This check runs an all-reduce like a job, with a job's environment, on the
existing routes. Bypassing the fabric causes no error. If the management network is faster than a rail, it does not even
look slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stampworks.physics.bounds import Bound
from stampworks.physics.collectives import all_reduce_moves, bus_factor, size
from stampworks.plan import OVER_TCP
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import CheckFinding, Measured, Verdict, finding_without_number
from stampworks.qualification.concluding import problems
from stampworks.qualification.results import Heard
from stampworks.qualification.subject import Subject
from stampworks.text.names import fold

CHECK, UNIT = "fabric", "bytes"
FABRIC, MANAGEMENT = ("fabric_sent", "fabric_received"), ("management_sent", "management_received")
ROUNDS = 8
SECONDS = 1.0
"""Duration of all rounds at a rail's rate, so that a node's other traffic is small in comparison."""
SIZE_MIN, SIZE_MAX = 1 << 20, 1 << 30
_STARTUP_S = 40.0


@dataclass(frozen=True)
class _Moved:
    """The counters of a node's NICs, in bytes: (sent, received)."""

    fabric: tuple[float, float]
    management: tuple[float, float]


@dataclass(frozen=True)
class _Bounds:
    demanded: Bound
    """Minimum on the rails of each node, in each direction."""
    allowed: Bound
    """Maximum on its management network."""

    def past(self, moved: _Moved) -> tuple[bool, bool]:
        """Return whether the sent, and the received, traffic of a node bypassed the fabric."""
        sent, received = zip(moved.fabric, moved.management, strict=True)
        return self._is_past(*sent), self._is_past(*received)

    def _is_past(self, fabric: float, management: float) -> bool:
        return fabric < self.demanded.value or management > self.allowed.value


def used(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Run an all-reduce on all nodes with rails, and repeat it without nodes that diverted the traffic of others."""
    if not subject.fabric.rails:
        return
    those = subject.on_rail(subject.fabric.rails[0], nodes)
    while len(those) > 1:
        ask = _ask(subject, those)
        found, rows = _judged(subject, those, (yield ask))
        if any(each.verdict != "pass" for each in found):  # one failure may be caused by other traffic
            found, rows = _judged(subject, those, (yield ask))
        evidence.add(found, rows)
        left = tuple(node for node in those if node not in evidence.failed)
        if left == those:
            return
        those = left
    if those and evidence.failed:
        why = f"no node was left for an all-reduce with {those[0]}"
        evidence.add([finding_without_number(CHECK, "unknown", those, why)])


def _ask(subject: Subject, nodes: tuple[str, ...]) -> Ask:
    options = {"bytes": _size(subject, len(nodes)), "rounds": ROUNDS, "rdma": subject.fabric.kind not in OVER_TCP}
    seconds = _STARTUP_S + len(nodes) + 20 * SECONDS + subject.waking_s(nodes[0])
    return Ask((CHECK,), nodes, {CHECK: options}, seconds, f"networks that carry an all-reduce of {len(nodes)} nodes")


def _size(subject: Subject, ranks: int) -> int:
    """Return the power of two above the size that takes the wanted time."""
    rate_mbps = subject.fabric.rails[0].rate_mbps
    wanted = int(rate_mbps * 1e6 / 8 * SECONDS / ROUNDS / bus_factor("all_reduce", ranks))
    return max(SIZE_MIN, min(SIZE_MAX, 1 << wanted.bit_length()))


def _judged(subject: Subject, nodes: tuple[str, ...], heard: Heard) -> tuple[list[CheckFinding], list[Measured]]:
    bounds = _bounds(subject, len(nodes), heard)
    moved = {node: its for node in nodes if (its := _moved(heard, node, len(nodes)))}
    past = {node: bounds.past(its) for node, its in moved.items()}
    found = [_unknown(heard, node) for node in nodes if node not in moved]
    if blamed := _blamed(past):
        found += [_finding("fail", (node,), moved, bounds) for node in blamed]
    elif wrong := tuple(node for node, ways in past.items() if any(ways)):
        found.append(_finding("fail", (), {node: moved[node] for node in wrong}, bounds))
    elif moved:
        found.append(_finding("pass", tuple(moved), moved, bounds))
    return found, [row for node, its in moved.items() for row in _rows(node, its)]


def _bounds(subject: Subject, ranks: int, heard: Heard) -> _Bounds:
    backends = {result.backend for result in heard.of(CHECK)}
    whole = 4 * ranks * max(1, _size(subject, ranks) // 4 // ranks)
    once = all_reduce_moves(ranks, whole, ring=backends == {"gloo"})
    demanded = Bound(ROUNDS * once.value, f"{ROUNDS} times: {once.why}")
    nics = len(subject.fabric.rails) + 1
    share = f"half of its share if it were used like each of {nics - 1} rails"
    return _Bounds(demanded, Bound(demanded.value / nics / 2, f"{share}: 1/{2 * nics} of {size(int(demanded.value))}"))


def _moved(heard: Heard, node: str, ranks: int) -> _Moved | None:
    """Return the counters of a node; None if some are missing. A node whose rail is its management network has no
    others."""
    results = [each for each in heard.of(CHECK) if each.node == node and each.ranks == ranks]
    values = [value for each in results for value in each.values]
    said = {name: [each.value for each in values if each.quantity == name] for name in (*FABRIC, *MANAGEMENT)}
    alone = any(text.quantity == "skipped" for each in results for text in each.texts)
    if not all(said[name] for name in FABRIC) or not (alone or all(said[name] for name in MANAGEMENT)):
        return None
    sums = {name: sum(its) for name, its in said.items()}
    return _Moved((sums[FABRIC[0]], sums[FABRIC[1]]), (sums[MANAGEMENT[0]], sums[MANAGEMENT[1]]))


def _rows(node: str, its: _Moved) -> Iterator[Measured]:
    for name, value in zip((*FABRIC, *MANAGEMENT), (*its.fabric, *its.management), strict=True):
        yield Measured(name, UNIT, node, "", "", 0, value, value, value, 1, None, False)


def _blamed(past: Mapping[str, tuple[bool, bool]]) -> list[str]:
    """Return the nodes to blame for traffic that bypassed the fabric. A node with a wrong address diverts both
    directions, and its neighbours divert one. A node with a wrong route diverts what it sends. When all nodes are
    affected, none is to blame. A healthy node between two with wrong addresses cannot be told from a third faulty
    one."""
    both = [node for node, ways in past.items() if all(ways)]
    blamed = both or [node for node, (sent, _) in past.items() if sent]
    return blamed if len(blamed) < len(past) else []


def _unknown(heard: Heard, node: str) -> CheckFinding:
    said = [what for about, what in problems(heard, CHECK) if about == node]
    why = "; ".join([*said, *heard.unreadable][:2]) or "no answer"
    return finding_without_number(CHECK, "unknown", (node,), why)


def _finding(verdict: Verdict, nodes: tuple[str, ...], moved: Mapping[str, _Moved], bounds: _Bounds) -> CheckFinding:
    """Make a finding with the numbers of the node that moved least over its rails."""
    about = {node: moved[node] for node in nodes or moved}
    node, its = min(about.items(), key=lambda each: min(each[1].fabric))
    least, most, demanded = min(its.fabric), max(its.management), bounds.demanded.value
    who = "" if nodes else f"{fold(tuple(about))}: the faulty one cannot be determined; of {node} "
    went = f"{size(int(least))} of {size(int(demanded))} of an all-reduce went over its rails"
    why = f"{who}{went}, and {size(int(most))} over its network for management"
    if verdict == "fail" and least >= demanded:  # the rails carried all of it; other traffic is extra
        quantity, number, bound = MANAGEMENT[its.management.index(most)], most, bounds.allowed
    else:
        quantity, number, bound = FABRIC[its.fabric.index(least)], least, bounds.demanded
    derivation = f"at least: {bounds.demanded.why}; at most over the network for management: {bounds.allowed.why}"
    return CheckFinding(
        CHECK, verdict, nodes, "", quantity, UNIT, 0, number, round(bound.value, 6), why, False, derivation
    )
