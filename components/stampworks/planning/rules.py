"""What can be said about a plan with facts that a plan must not depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stampworks.plan import Plan

Verdict = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class Facts:
    """What was measured on the machine that the cluster would run on. None: not measured."""

    loopback_mbps: int | None


@dataclass(frozen=True)
class Finding:
    """What a rule has to say about a plan."""

    id: str
    verdict: Verdict
    text: str
    hint: str


Rule = Callable[[Plan, Facts], Finding]

LOOPBACK = "fabric.loopback"
HEADROOM = 2
"""All rails at once must fit this many times: shapers that compete with jobs for the cores miss their rates."""


def rules(plan: Plan, facts: Facts | None) -> tuple[Finding, ...]:
    """The findings of all rules, in a fixed order."""
    known = facts or Facts(loopback_mbps=None)
    return tuple(rule(plan, known) for rule in RULES)


def loopback(plan: Plan, facts: Facts) -> Finding:
    """Whether this machine can carry all simulated rails at their declared rates at once, and as much again."""
    links = [
        rail.rate_mbps
        for group in plan.groups
        for node in group.nodes
        for rail in plan.fabric.rails[: len(node.rail_addresses)]
    ]
    if plan.fabric.kind != "simulated" or not links:
        return Finding(LOOPBACK, "pass", "the plan has no simulated rails for this machine to carry", "")
    need = HEADROOM * sum(links)
    sum_text = f"{len(links)} simulated links x {links[0]} Mb/s x {HEADROOM} for headroom = {need} Mb/s"
    measured = facts.loopback_mbps
    if measured is None:
        return Finding(
            LOOPBACK,
            "unknown",
            f"{sum_text}, and nobody has measured what this machine carries",
            "run `stampworks facts`",
        )
    if need <= measured:
        return Finding(LOOPBACK, "pass", f"{sum_text}, and this machine carries {measured} Mb/s", "")
    return Finding(
        LOOPBACK, "fail", f"{sum_text}, but this machine carries {measured} Mb/s", _what_fits(measured, links)
    )


def _what_fits(measured_mbps: int, links: list[int]) -> str:
    rate = measured_mbps // (HEADROOM * len(links))
    if rate < 1:
        return f"take nodes out: not even 1 Mb/s a rail would fit for {len(links)} links"
    return (
        f"write fabric.rail_rate_mbps: {rate} or less, or take nodes out; was the machine busy? `stampworks facts` "
        "measures again"
    )


RULES: tuple[Rule, ...] = (loopback,)
