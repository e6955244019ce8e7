"""Derive the verdicts on rails and on the whole cluster from findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stampworks.qualification.asking import Evidence
from stampworks.qualification.certificate import Certificate, CheckFinding, NodeVerdict, RailVerdict, Verdict, worst
from stampworks.qualification.subject import Subject
from stampworks.text.names import fold


def rail_verdicts(subject: Subject, evidence: Evidence) -> tuple[RailVerdict, ...]:
    """Judge each rail by the worst finding about it; a rail without findings is unknown."""
    return tuple(_rail_verdict(rail.interface, evidence.findings) for rail in subject.fabric.rails)


def _rail_verdict(name: str, findings: Sequence[CheckFinding]) -> RailVerdict:
    about = [finding for finding in findings if finding.rail == name]
    verdict = worst(finding.verdict for finding in about)
    return RailVerdict(name, verdict, tuple(finding.why for finding in about if finding.verdict == verdict))


def overall(
    subject: Subject, nodes: Sequence[NodeVerdict], findings: Sequence[CheckFinding], set_apart: Collection[str]
) -> Verdict:
    """Return the worst verdict of everything in service. Up to proof.failed_nodes_max failed nodes do not count,
    because they are held back."""
    counted = [node for node in nodes if node.name not in set_apart]
    failed = [node for node in counted if node.verdict == "fail"]
    if len(failed) <= subject.proof.failed_nodes_max and len(failed) < len(counted):
        counted = [node for node in counted if node not in failed]
    return worst([*(node.verdict for node in counted), *(each.verdict for each in findings if not each.nodes)])


def open_questions(certificate: Certificate) -> list[str]:
    """List the reasons why a cluster or its nodes are not proven, one line for each reason with all its nodes.

    The unknown verdict of a node that a person holds is not listed: the node is as that person wants it.
    """
    reasons: dict[str, list[str]] = {}
    for node in certificate.nodes:
        if node.verdict != "pass" and not (node.held and node.verdict == "unknown"):
            held = ", held back" if node.held else ""
            for why in dict.fromkeys(node.why):
                reasons.setdefault(f"({node.verdict}{held}): {why}", []).append(node.name)
    lines = [f"{fold(names)} {reason}" for reason, names in reasons.items()]
    whole = [finding for finding in certificate.findings if not finding.nodes and finding.verdict != "pass"]
    return [*lines, *dict.fromkeys(f"{finding.check} ({finding.verdict}): {finding.why}" for finding in whole)]


def shortfall(certificate: Certificate) -> str:
    """Explain why a cluster is not proven and what to do; a failed `up` shows it."""
    lines = [f"cluster {certificate.cluster} is not proven: {certificate.verdict}"]
    lines += [f"  {line}" for line in open_questions(certificate)]
    lines += [
        "  hint: repair the named nodes and run pulumi up again, which measures them once more;",
        "  to go on with fewer nodes, declare proof.failed_nodes_max",
    ]
    return "\n".join(lines)
