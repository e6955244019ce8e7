"""Certificates as clusters of any size and state would have them: measured values have noise, and times stand still."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from stampworks import planning, qualification
from stampworks.declaration import load_value
from stampworks.plan import Level, Plan, fingerprint
from stampworks.qualification import Certificate, Evidence, NodeVerdict, subject_of
from stampworks.qualification.results import MeasuredValue

from tests.qualification.conftest import SimulatedCluster

STARTED, ENDED = "2026-11-21T19:00:00Z", "2026-11-21T19:01:42Z"
FILLING_BYTES = 256 << 10
"""Size at which a collective takes twice as long as its bytes would."""


class NoisyCluster(SimulatedCluster):
    """A cluster with values that scatter below the links' rate, slower small collectives, and a claim of real
    hardware."""

    def value(self, quantity: str, unit: str, value: float, *more: Any, **named: Any) -> MeasuredValue:
        exact = super().value(quantity, unit, value, *more, **named)
        if unit in ("bytes", "count"):
            return dataclasses.replace(exact, simulated=quantity.startswith("accelerator"))
        chance = random.Random(f"{quantity} {exact.node} {exact.peer} {exact.rail} {exact.bytes}")  # noqa: S311
        filled = exact.bytes / (exact.bytes + FILLING_BYTES) if exact.bytes else 1.0
        middle = value * filled * chance.uniform(0.985, 0.998)
        low, high = middle * chance.uniform(0.95, 0.99), middle * chance.uniform(1.001, 1.002)
        return dataclasses.replace(exact, value=round(middle, 5), low=round(low, 5), high=round(high, 5))


def plan_of(nodes: int, **fabric: Any) -> Plan:
    declared = {
        "version": 1,
        "name": "acceptance",
        "cloud": "local",
        "pools": [{"name": "gpu", "machine": "sim-h100", "count": nodes}],
        "fabric": {"rail_rate_mbps": 200, "leaf_nodes": 4, **fabric},
    }
    return planning.plan(load_value(declared, "test"))


def certificate_of(
    plan: Plan,
    links: Mapping[tuple[str, str], float] | None = None,
    level: Level = "standard",
    aside: Sequence[str] = (),
    says: Mapping[tuple[str, str], float] | None = None,
) -> Certificate:
    """Return a certificate as `operations.qualify` creates it. Nodes in `aside` are held by a user and not measured."""
    subject = subject_of(plan)
    names = tuple(name for name in subject.nodes if name not in aside)
    evidence = NoisyCluster(subject, links or {}, says=says or {}).evidence(names, level)
    verdicts = tuple(_verdict(name, name in aside, evidence) for name in subject.nodes)
    return Certificate(
        version=qualification.VERSION,
        cluster=subject.cluster,
        cloud=subject.cloud,
        fingerprint=fingerprint(plan),
        proven="fedcba9876543210",
        release=subject.release,
        level=level,
        verdict=qualification.overall(subject, verdicts, evidence.findings, aside),
        started=STARTED,
        ended=ENDED,
        nodes=verdicts,
        rails=qualification.rail_verdicts(subject, evidence),
        findings=tuple(evidence.findings),
        measured=tuple(evidence.measured),
        toolkit="0.1.0",
    )


def _verdict(name: str, aside: bool, evidence: Evidence) -> NodeVerdict:
    if aside:
        return NodeVerdict(name, "1", "unknown", True, STARTED, ("held by ann: new fans",))
    about = [finding for finding in evidence.findings if name in finding.nodes]
    verdict = qualification.worst(finding.verdict for finding in about)
    why = tuple(finding.why for finding in about if finding.verdict != "pass")
    return NodeVerdict(name, "1", verdict, verdict == "fail", STARTED, why)
