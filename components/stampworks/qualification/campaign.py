"""Which check comes when: a conversation between what has to be known and a cluster that can be asked.

Pure: a campaign asks for measurements and is sent what was heard, so that a simulated cluster can answer as well as a
real one. What tells most for its time comes first; a node that has failed is asked nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stampworks.plan import Level
from stampworks.qualification import alone, collectives, rails
from stampworks.qualification.asking import Campaign, Evidence
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
        still = tuple(node for node in nodes if node not in evidence.failed)
        if still:
            yield from step(subject, still, evidence)
