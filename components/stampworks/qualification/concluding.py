"""Turn the answers of nodes into findings: complaints about nodes, missing answers, and sound nodes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from stampworks.qualification import peers
from stampworks.qualification.asking import Ask, Evidence
from stampworks.qualification.certificate import CheckFinding, Measured, Verdict, finding_without_number
from stampworks.qualification.results import Heard
from stampworks.qualification.subject import Subject

LOOKS = 3
"""Number of looks in which a suspect must be slower than its peer before it is blamed; chance rarely does that."""


class Undecided(str):
    """Reason for an undecided node: it neither passes nor fails."""

    __slots__ = ()


Complaints = Iterator[tuple[str, str]]
"""Pairs (node, fault)."""
Looks = Generator[Ask, Heard, list[tuple[str, str]]]
"""A campaign that asks for further measurements and returns complaints."""


def conclude(
    check: str,
    heard: Heard,
    nodes: Sequence[str],
    needed: str,
    complaints: Sequence[tuple[str, str]],
    evidence: Evidence,
) -> None:
    """Add a finding for each node with complaints, one for all silent nodes, and one for all others.

    A node is silent when it reports nothing about the needed quantity.
    """
    simulated = any(value.simulated for result in heard.of(check) for value in result.values)

    def finding(verdict: Verdict, about: tuple[str, ...], why: str) -> CheckFinding:
        return finding_without_number(check, verdict, about, why, simulated)

    of_node: dict[str, list[str]] = {}
    for node, why in complaints:
        of_node.setdefault(node, []).append(why)
    for node, reasons in of_node.items():
        about = (node,) if node else ()
        certain = [why for why in reasons if not isinstance(why, Undecided)]
        verdict: Verdict = "fail" if certain else "unknown"
        evidence.add([finding(verdict, about, "; ".join(dict.fromkeys(certain or reasons)))])
    if silent := tuple(node for node in peers.missing(heard, check, nodes, needed) if node not in of_node):
        evidence.add([finding("unknown", silent, "; ".join(heard.unreadable[:2]) or "no answer")])
    if well := tuple(node for node in nodes if node not in of_node and node not in silent):
        evidence.add([finding("pass", well, "as declared, and as its peers")])


def problems(heard: Heard, check: str) -> Complaints:
    """Yield the complaints in the answers to a check: node and text, with the rail before it."""
    for result in heard.of(check):
        for problem in result.problems:
            where = f"{problem.rail}: " if problem.rail else ""
            yield problem.node, where + problem.what


def left_out(subject: Subject, heard: Heard, check: str) -> Complaints:
    """Find nodes that answered for fewer accelerators than declared: the others are unproven."""
    found: dict[str, set[str]] = {}
    for result in heard.of(check):
        found.setdefault(result.node, set()).update(value.device for value in result.values)
    for node, its in found.items():  # a node that measured nothing has given its reason
        machine = subject.pool_of[node].machine if node in subject.nodes else None
        wanted = machine.accelerators if machine and not machine.simulated else 0
        count = sum(device.startswith(peers.ACCELERATOR) for device in its)
        if its and wanted and not count:
            yield node, Undecided(f"none of its {wanted} accelerators was measured: torch does not see them")
        elif count and wanted and count != wanted:
            yield node, f"{count} of {wanted} accelerators were measured"


def beside(
    suspect: peers.Suspect,
    ask: Ask,
    rates: Callable[[Heard], Mapping[str, float]],
    words: Callable[[float, str, float], str],
    looks: int = LOOKS,
) -> Looks:
    """Measure a slow suspect beside a peer until it is slow `looks` times, because noise of a host hits either one.

    The suspect stays undecided if the peer was held back too often.
    """
    (node, before), name, peer, slow = peers.at_home(suspect.name), suspect.name, suspect.peer, 0
    for _ in range(2 * looks):
        again = rates((yield ask))
        if name not in again or peer not in again:
            return [(node, f"{before}it was slower than its peers, and gave no answer beside {peer}")]
        if again[name] < suspect.part_min * again[peer]:
            slow += 1
            if slow == looks:
                why = before + words(again[name], peer, again[peer])
                return [(node, f"{why}; among all, {suspect.why}" if suspect.why else why)]
        elif again[peer] >= suspect.part_min * suspect.peer_reached:
            return []  # otherwise the peer was held back, which says nothing about the suspect
    why = (
        f"it was slower than its peers, and {peer} beside it was held back too: {2 * looks} measurements did not decide"
    )
    return [(node, Undecided(before + why))]


def measured(heard: Heard, quantity: str) -> Iterator[Measured]:
    """Yield the measurements of a quantity as certificates keep them."""
    for each in peers.values(heard, quantity):
        yield Measured(
            quantity, each.unit, each.node, each.peer, each.rail, each.bytes, each.value, each.low, each.high,
            each.samples, None, each.simulated, each.device,
        )  # fmt: skip
