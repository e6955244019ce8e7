"""Which check comes when: a conversation between what has to be known and a cluster that can be asked.

Pure: a campaign asks for measurements and is sent what was heard, so that a simulated cluster can answer as well as a
real one. What tells most for its time comes first; a node that has failed is asked nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from stampworks.plan import Level
from stampworks.qualification import alone, collectives, rails
from stampworks.qualification.asking import Ask, Campaign, Evidence
from stampworks.qualification.certificate import finding_without_number
from stampworks.qualification.results import Heard, about
from stampworks.qualification.subject import Subject

Step = Callable[[Subject, tuple[str, ...], Evidence], Campaign]

STEPS: Mapping[Level, tuple[Step, ...]] = {
    "none": (),
    "quick": (alone.quick,),
    "standard": (alone.quick, rails.pairs, alone.standard, collectives.standard),
    "burn-in": (alone.quick, rails.pairs, alone.standard, collectives.standard, alone.burn_in, collectives.burn_in),
}


def campaign(subject: Subject, nodes: Sequence[str], level: Level, evidence: Evidence) -> Campaign:
    """Measures these nodes, step by step; a step gets those that no earlier one has failed."""
    for step in STEPS[level]:
        while still := tuple(node for node in nodes if node not in evidence.failed):
            found = Evidence()
            try:
                lost = yield from _heard_out(step(subject, still, found))
            except GeneratorExit:  # time is up: what was found counts all the same
                evidence.add(found.findings, found.measured)
                raise
            if not lost:
                evidence.add(found.findings, found.measured)
                break
            # what the others were asked had to do with those that are gone: they are asked once more
            evidence.add([finding_without_number("answering", "fail", (node,), why) for node, why in lost.items()])


def _heard_out(step: Campaign) -> Generator[Ask, Heard, Mapping[str, str]]:
    """Carries a step to its end, or to where it lost nodes."""
    heard: Heard | None = None
    while True:
        try:
            asked = step.send(heard) if heard else next(step)
        except StopIteration:
            return {}
        heard = about((yield asked), asked.nodes)
        if heard.lost:
            return heard.lost
