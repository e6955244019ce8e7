"""Check that every rail of every node, and every trunk, carries its declared rate and loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stampworks import catalog
from stampworks.physics import links
from stampworks.plan import Rail
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import CheckFinding, Measured, Verdict
from stampworks.qualification.localise import Located, Pair, Round, localise
from stampworks.qualification.results import BUSY, Heard, MeasuredValue, MeasurementProblem, in_spite_of_the_host
from stampworks.qualification.subject import Subject
from stampworks.text.names import fold

QUANTITY = "pair_bandwidth"
UNIT = "Gb/s"
RESENT = "pair_resent"
RESENT_UNIT = "%"
SHARE_MIN = 0.85
"""Minimum part of the expected rate: TCP over a shaped link has reached 0.95 and more of it in every clean run."""
RESENT_MAX = 0.5
"""Per cent. In 300 transfers over healthy links not one byte was sent again. A link that loses three packets in a
hundred nearly always exceeded this."""
SECONDS = 0.5
"""Seconds for each direction of a pair: a hundred times the burst that a shaper lets through."""
LAST_SECONDS = 2.0
"""Seconds of the last measurement before a node is blamed: short delays by a busy host weigh less."""
ALONE_MAX = 8
"""Maximum number of pairs that are measured again one after the other, undisturbed by each other."""
_STARTUP_S = 20.0


@dataclass(frozen=True)
class Measure:
    """The measured rates of a pair on a rail."""

    ways: tuple[MeasuredValue, ...]
    """Results, one for each direction in which data arrived."""
    expected_gbps: float
    why: str
    """Why nothing arrived, in that case."""
    lost: tuple[MeasuredValue, ...] = ()
    """Resent data in each direction; empty when a queue before a narrower link may drop some."""
    uncounted: bool = False
    """Whether the resent data should be known but is not."""

    @property
    def gbps(self) -> float | None:
        """Return the rate of the slower direction; None when one direction delivered nothing."""
        return min(way.value for way in self.ways) if len(self.ways) == 2 else None

    @property
    def resent(self) -> float:
        """Return the resent per cent of the sent data, in the worse direction."""
        return max((way.value for way in self.lost), default=0.0)

    @property
    def slow(self) -> bool:
        """Whether the rate is missing, or below SHARE_MIN of the expected one."""
        return self.gbps is None or self.gbps < SHARE_MIN * self.expected_gbps

    @property
    def bad(self) -> bool:
        """Return whether the link is slow or loses packets. A lossy link may be fast between two nodes and delay a
        whole collective."""
        return self.slow or self.resent > RESENT_MAX


def pairs(subject: Subject, nodes: tuple[str, ...], evidence: Evidence) -> Campaign:
    """Measure all rails in one start: neighbours on a leaf, then leaves across their trunks; then repeat bad ones
    only."""
    searches = [_Search(subject, rail, subject.on_rail(rail, nodes)) for rail in subject.fabric.rails]
    for search in searches:
        if len(search.nodes) == 1 and len(subject.on_rail(search.rail, tuple(subject.nodes))) > 1:
            evidence.add([search.unmeasured("no node was free to measure it with")])
    searches = [search for search in searches if len(search.nodes) > 1]
    if not searches:
        return
    begun = [(search, search.inside(), search.across()) for search in searches]
    rounds = _rounds(inside for _, inside, _ in begun)
    for turn in range(max(len(across) for _, _, across in begun)):
        rounds += _rounds(across[turn] for _, _, across in begun if len(across) > turn)
    rails = [search.rail.interface for search in searches]
    heard = yield _ask(rounds, f"{len(rails)} rails of {len(nodes)} nodes, pair by pair")
    for search, inside, across in begun:
        try:
            yield from search.conclude(heard, inside, across, evidence)
        except _UnmeasuredError as error:
            evidence.add([search.unmeasured(str(error))])


class _UnmeasuredError(Exception):
    """A failed run of the programs, which says nothing about any rail."""


class _Search:
    """The state of the search for faults on one rail."""

    def __init__(self, subject: Subject, rail: Rail, nodes: tuple[str, ...]) -> None:
        self.subject, self.rail, self.nodes = subject, rail, nodes
        self.kind = catalog.fabrics()[subject.fabric.kind]
        self.trunks = {trunk.leaf: trunk.rate_mbps for trunk in rail.trunks}
        self.of_leaf: dict[str, list[str]] = {}
        for node in nodes:
            self.of_leaf.setdefault(subject.leaf(node), []).append(node)
        self.measures: dict[Pair, Measure] = {}

    def inside(self) -> Round:
        return next(localise(self.nodes, self.subject.leaf))

    def across(self) -> tuple[Round, ...]:
        """Pair every node of a leaf with one of another leaf: together they fill the trunks. An odd leaf comes
        second."""
        leaves = tuple(self.of_leaf)
        if len(leaves) < 2:
            return ()
        rounds = [next(localise(leaves))]
        if len(leaves) % 2:
            left = next(leaf for leaf in leaves if not any(leaf in pair for pair in rounds[0]))
            rounds.append(((left, leaves[0]),))
        return tuple(tuple(pair for both in of for pair in self._between(both)) for of in rounds)

    def conclude(self, heard: Heard, inside: Round, across: Sequence[Round], evidence: Evidence) -> Campaign:
        self._note(heard, inside)
        located = yield from self._finish(localise(self.nodes, self.subject.leaf), inside)
        bad, undecided = yield from self._confirmed(located)
        good = [node for node in self.nodes if node not in (*bad, *undecided)]
        for node in bad:
            evidence.add([self._node_finding(node)])
        if undecided:
            evidence.add([self._undecided_finding(undecided)])
        if good:
            evidence.add([self._pass_finding(good)])
        for together in across:
            self._note(heard, together)
            yield from self._trunks(together, set(good), evidence)
        evidence.add([], list(self._measured()))

    def _finish(
        self, search: Generator[Round, Collection[Pair], Located], asked: Round
    ) -> Generator[Ask, Heard, Located]:
        """Continue a search whose first round was measured already."""
        next(search)
        try:
            while True:
                asked = search.send([pair for pair in asked if self.measures[pair].bad])
                rounds = [[pair] for pair in asked] if len(asked) <= ALONE_MAX else [list(asked)]
                what = f"{self.rail.interface}: {len(asked)} pairs once more"
                heard = yield _ask(rounds, what)
                for together in rounds:
                    self._note(heard, tuple(together))
        except StopIteration as end:
            located: Located = end.value
            return located

    def _confirmed(self, located: Located) -> Generator[Ask, Heard, tuple[list[str], list[str]]]:
        """Measure suspects again, alone and for longer; return nodes to blame and undecided nodes.

        A neighbour's noise may come twice, and rarely thrice.
        """
        few = len(located.undecided) <= ALONE_MAX
        suspects = (*located.bad, *(located.undecided if few else ()))
        if not suspects:
            return [], list(located.undecided)
        meetings = ((node, self._last_partner(node)[0]) for node in suspects)
        pairs = list({frozenset(pair): pair for pair in meetings}.values())
        what = f"{self.rail.interface}: {fold(suspects)} for the last time"
        heard = yield _ask([[pair] for pair in pairs], what, LAST_SECONDS)
        for pair in pairs:
            self._note(heard, (pair,))
        sound = {node for pair in pairs if not self.measures[pair].bad for node in pair}
        bad = [node for node in suspects if node not in sound]
        # A node that is bad with a partner that turned out sound is to blame.
        blamed = [node for node in bad if node in located.bad or self._last_partner(node)[0] in sound]
        return blamed, [node for node in located.undecided if node not in (*blamed, *sound)]

    def _trunks(self, across: Round, good: set[str], evidence: Evidence) -> Campaign:
        """Blame a trunk when two nodes are sound inside their leaves and bad across the trunk."""
        if not across:
            return
        bad = [pair for pair in across if good.issuperset(pair) and self.measures[pair].bad]
        if bad:
            again = yield _ask([list(across)], f"{self.rail.interface}: across leaves once more", LAST_SECONDS)
            self._note(again, across)
            bad = [pair for pair in bad if self.measures[pair].bad]
        well = [pair for pair in across if good.issuperset(pair) and pair not in bad]
        leaves = [tuple(self.subject.leaf(node) for node in pair) for pair in bad]
        for between in sorted(set(leaves)):
            worst = min(
                (self.measures[pair] for pair, its in zip(bad, leaves, strict=True) if its == between),
                key=lambda measure: measure.gbps or 0.0,
            )
            why = f"{self.rail.interface} between {between[0]} and {between[1]}: {_shortfall(worst)}; "
            why += f"their nodes are {_sound(worst)} inside their leaves, so that it is a trunk"
            evidence.add([self._finding("trunks", "fail", (), worst, why)])
        if well:
            usual = self.measures[well[len(well) // 2]]
            why = f"{self.rail.interface} across leaves: {_number(usual.gbps)} of {_number(usual.expected_gbps)} Gb/s"
            why += _caveats(self.measures[pair] for pair in well)
            evidence.add([self._finding("trunks", "pass", (), usual, why)])

    def _between(self, leaves: Pair) -> Iterable[Pair]:
        return zip(self.of_leaf[leaves[0]], self.of_leaf[leaves[1]], strict=False)

    def _note(self, heard: Heard, together: Round) -> None:
        """Store the measures of pairs that were measured at the same time."""
        if together and not heard.of("pairs"):
            raise _UnmeasuredError("; ".join(heard.unreadable[:2]) or "no answer")
        crossing = Counter(leaf for pair in together if self._crosses(pair) for leaf in map(self.subject.leaf, pair))
        for pair in together:
            self.measures[pair] = self._measure(heard, pair, crossing)

    def _measure(self, heard: Heard, pair: Pair, crossing: Mapping[str, int]) -> Measure:
        shares = [self.rail.rate_mbps]
        if self._crosses(pair):
            shares += [
                self.trunks[leaf] // crossing[leaf] for leaf in map(self.subject.leaf, pair) if leaf in self.trunks
            ]
        expected = links.gbs(min(shares), self.kind) * 8
        said = self._measured_directions(heard, pair, QUANTITY, UNIT)
        ways = tuple(in_spite_of_the_host(way, SHARE_MIN * expected, self.subject.shared) for way in said)
        undisturbed = min(shares) == self.rail.rate_mbps
        lost = self._measured_directions(heard, pair, RESENT, RESENT_UNIT) if undisturbed else ()
        why = next((p.what for p in _problems(heard, self.rail.interface) if p.node in pair), "nothing arrived")
        return Measure(ways, expected, why, lost, undisturbed and len(lost) < len(ways))

    def _measured_directions(self, heard: Heard, pair: Pair, quantity: str, unit: str) -> tuple[MeasuredValue, ...]:
        """Return the measured values in each direction."""
        of_sender = {
            value.node: value
            for result in heard.of("pairs")
            for value in result.values
            if (value.quantity, value.unit, value.rail) == (quantity, unit, self.rail.interface)
            and {value.node, value.peer} == set(pair)
        }
        return tuple(of_sender.values())

    def _crosses(self, pair: Pair) -> bool:
        return self.subject.leaf(pair[0]) != self.subject.leaf(pair[1])

    def _last_partner(self, node: str) -> tuple[str, Measure]:
        """Return the last partner of a node, and the measure of the two."""
        pair, measure = next((pair, its) for pair, its in reversed(self.measures.items()) if node in pair)
        return next(other for other in pair if other != node), measure

    def unmeasured(self, why: str) -> CheckFinding:
        nothing = Measure((), links.gbs(self.rail.rate_mbps, self.kind) * 8, why)
        return self._finding("rails", "unknown", self.nodes, nothing, f"{self.rail.interface}: {why}")

    def _node_finding(self, node: str) -> CheckFinding:
        other, measure = self._last_partner(node)
        why = f"{self.rail.interface} to {other}: {_shortfall(measure)}; {other} is {_sound(measure)} with others"
        return self._finding("rails", "fail", (node,), measure, why)

    def _undecided_finding(self, undecided: Sequence[str]) -> CheckFinding:
        _, measure = self._last_partner(undecided[0])
        who = fold(undecided)
        why = f"{self.rail.interface} among {who}: {_shortfall(measure)}; "
        why += f"none of them is {_sound(measure)}, so that the faulty one cannot be determined"
        return self._finding("rails", "fail", (), measure, why)

    def _pass_finding(self, good: Sequence[str]) -> CheckFinding:
        well = [measure for pair, measure in self.measures.items() if not measure.bad and not self._crosses(pair)]
        well = well or [measure for measure in self.measures.values() if not measure.bad]
        usual = sorted(well, key=lambda measure: measure.gbps or 0.0)[len(well) // 2]
        why = f"{self.rail.interface}: {_number(usual.gbps)} of {_number(usual.expected_gbps)} Gb/s in pairs"
        why += _caveats(well)
        return self._finding("rails", "pass", tuple(good), usual, why)

    def _finding(
        self, check: str, verdict: Verdict, nodes: tuple[str, ...], measure: Measure, why: str
    ) -> CheckFinding:
        rail = self.rail.interface
        if verdict == "fail" and not measure.slow:
            most = "no link on the way is slower than the rail, so that queues need not drop packets"
            lost = round(measure.resent, 2)
            return CheckFinding(check, verdict, nodes, rail, RESENT, RESENT_UNIT, 0, lost, RESENT_MAX, why, False, most)
        expected = round(SHARE_MIN * measure.expected_gbps, 4)
        gbps = None if measure.gbps is None else round(measure.gbps, 4)
        share = f"{SHARE_MIN:g} of the slowest link between the two x {links.efficiency(self.kind).why}"
        return CheckFinding(check, verdict, nodes, rail, QUANTITY, UNIT, 0, gbps, expected, why, False, share)

    def _measured(self) -> Iterable[Measured]:
        for its in self.measures.values():
            for way in (*its.ways, *its.lost):
                expected = round(its.expected_gbps, 4) if way.quantity == QUANTITY else None
                yield Measured(
                    way.quantity, way.unit, way.node, way.peer, way.rail, way.bytes, way.value, way.low, way.high,
                    way.samples, expected, way.simulated,
                )  # fmt: skip


def _ask(rounds: Sequence[Sequence[Pair]], what: str, seconds: float = SECONDS) -> Ask:
    """Ask for all rails at once, because rails share nothing."""
    nodes = tuple(sorted({node for together in rounds for pair in together for node in pair}))
    options = {"pairs": {"rounds": [[list(pair) for pair in together] for together in rounds], "seconds": seconds}}
    return Ask(("pairs",), nodes, options, _STARTUP_S + 4 * seconds * len(rounds) + 0.1 * len(nodes), what)


def _rounds(of_rails: Iterable[Round]) -> list[list[Pair]]:
    """Merge the pairs of all rails into one round; empty when there is nothing to pair."""
    pairs = list(dict.fromkeys(pair for each in of_rails for pair in each))
    return [pairs] if pairs else []


def _problems(heard: Heard, rail: str) -> list[MeasurementProblem]:
    return [each for result in heard.of("pairs") for each in result.problems if each.rail in ("", rail)]


def _shortfall(measure: Measure) -> str:
    if measure.gbps is None:
        return measure.why
    if not measure.slow:
        return f"{measure.resent:.2g} % of packets are lost and sent again"
    return f"{_number(measure.gbps)} of {_number(measure.expected_gbps)} Gb/s"


def _caveats(measures: Iterable[Measure]) -> str:
    known = list(measures)
    uncounted = "; loss not counted" if any(measure.uncounted for measure in known) else ""
    return uncounted + (f"; {BUSY}" if any(way.note == BUSY for measure in known for way in measure.ways) else "")


def _sound(measure: Measure) -> str:
    """Return the adjective for nodes that do not have this fault."""
    return "fast" if measure.slow else "sound"


def _number(gbps: float | None) -> str:
    return "no" if gbps is None else f"{gbps:.3g}"
