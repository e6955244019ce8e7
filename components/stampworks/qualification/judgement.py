"""From findings to verdicts: of a rail, and of the whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stampworks.qualification.asking import Evidence
from stampworks.qualification.certificate import Certificate, Finding, NodeVerdict, RailVerdict, Verdict, worst
from stampworks.qualification.subject import Subject


def rail_verdicts(subject: Subject, evidence: Evidence) -> tuple[RailVerdict, ...]:
    """Each rail as the worst finding about it; one that nothing was found about is unknown."""
    return tuple(_of_rail(rail.interface, evidence.findings) for rail in subject.fabric.rails)


def _of_rail(name: str, findings: Sequence[Finding]) -> RailVerdict:
    about = [finding for finding in findings if finding.rail == name]
    verdict = worst(finding.verdict for finding in about)
    return RailVerdict(name, verdict, tuple(finding.why for finding in about if finding.verdict == verdict))


def overall(
    subject: Subject, nodes: Sequence[NodeVerdict], findings: Sequence[Finding], set_apart: Collection[str]
) -> Verdict:
    """The worst of all that is in service. As many nodes as were declared may have failed, for those are held back."""
    counted = [node for node in nodes if node.name not in set_apart]
    failed = [node for node in counted if node.verdict == "fail"]
    if len(failed) <= subject.proof.failed_nodes_max and len(failed) < len(counted):
        counted = [node for node in counted if node not in failed]
    return worst([*(node.verdict for node in counted), *(each.verdict for each in findings if not each.nodes)])


def shortfall(certificate: Certificate) -> str:
    """Why a cluster is not proven, and what to do: what a failed `up` shows."""
    lines = [f"cluster {certificate.cluster} is not proven: {certificate.verdict}"]
    for node in certificate.nodes:
        if node.verdict != "pass":
            held = ", held back" if node.held else ""
            lines += [f"  {node.name} ({node.verdict}{held}): {why}" for why in node.why]
    whole = [finding for finding in certificate.findings if not finding.nodes and finding.verdict != "pass"]
    lines += [f"  {finding.check} ({finding.verdict}): {finding.why}" for finding in whole]
    lines += [
        "  hint: repair what is named and run pulumi up again, which measures what failed once more;",
        "  to go on with fewer nodes, declare proof.failed_nodes_max",
    ]
    return "\n".join(lines)
