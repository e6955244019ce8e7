"""Training: the declared model on the declared accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.plan import Plan
from stampworks.planning.build import fitting
from stampworks.planning.rules.findings import Finding

MEMORY = "memory.fit"


def memory_fit(plan: Plan) -> Iterator[Finding]:
    """The declared model fits into the memory of its accelerators, laid out as declared."""
    for fit in fitting.fits(plan):
        yield Finding(MEMORY, fit.verdict, fit.text, fit.hint, "training.layout", fit.severity)


def idle(plan: Plan) -> Iterator[Finding]:
    """A step has work for every copy of the declared model."""
    for each in fitting.idle(plan):
        yield Finding("training.idle", each.verdict, each.text, each.hint, "training.batch", each.severity)
