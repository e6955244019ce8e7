"""Summary of a certificate: its subject, signature and verdict."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from stampworks.plan import Level, Plan
from stampworks.qualification import Certificate, Checked, Verdict
from stampworks.views.report import timeline
from stampworks.views.report.markdown import items, plain
from stampworks.views.report.marks import counted, verdict_mark
from stampworks.views.report.tree import e


@dataclass(frozen=True)
class Headline:
    """The data of the summary."""

    cluster: str
    cloud: str
    verdict: Verdict
    """Verdict of the certificate, or "fail" if its signature is known to be wrong."""
    level: Level
    started: str
    ended: str
    seconds: int | None
    """Duration; None if the times cannot be read."""
    nodes: str
    """Count of nodes by verdict, in words."""
    held: int
    rails: str
    signature: Verdict
    signature_why: str
    fingerprint: str
    proven: str
    notes: tuple[str, ...]
    """Warnings for the reader about simulated values and contradictions."""


def of(checked: Checked, plan: Plan | None, notes: tuple[str, ...]) -> Headline:
    """Collect the summary. Without a plan its facts are missing."""
    certificate = checked.certificate
    return Headline(
        cluster=certificate.cluster,
        cloud=certificate.cloud,
        verdict="fail" if checked.signature == "fail" else certificate.verdict,
        level=certificate.level,
        started=certificate.started,
        ended=certificate.ended,
        seconds=timeline.between(certificate.started, certificate.ended),
        nodes=counted(node.verdict for node in certificate.nodes) or "none",
        held=sum(node.held for node in certificate.nodes),
        rails=counted(rail.verdict for rail in certificate.rails) or "none",
        signature=checked.signature,
        signature_why=checked.why,
        fingerprint=certificate.fingerprint or "unknown",
        proven=certificate.proven or "unknown",
        notes=(*_forged(checked), *_simulated(certificate, plan), *notes),
    )


def _forged(checked: Checked) -> list[str]:
    if checked.signature != "fail":
        return []
    return [f"The signature is wrong: {checked.why}. The contents of the file follow, and prove nothing."]


def _simulated(certificate: Certificate, plan: Plan | None) -> list[str]:
    pools = [pool for pool in plan.pools if pool.machine.simulated] if plan else []
    notes = [
        f"The accelerators of pool {pool.name} are simulated: they show parsing, policy and scheduling, and nothing "
        "about speed."
        for pool in pools
        if pool.machine.accelerators
    ]
    every = [each.simulated for each in certificate.findings] + [each.simulated for each in certificate.measured]
    marked = [f"Simulated, and marked so: {sum(every)} of {len(every)} findings and values."] if any(every) else []
    return notes + marked


def _rows(headline: Headline) -> list[tuple[str, str]]:
    lasted = "" if headline.seconds is None else f" ({timeline.span(headline.seconds)})"
    held = f"; {headline.held} held back" if headline.held else ""
    return [
        ("Nodes", headline.nodes + held),
        ("Rails", headline.rails),
        ("Measured", f"{headline.started} to {headline.ended}{lasted}, level {headline.level}"),
        ("Signature", f"{headline.signature}: {headline.signature_why}"),
        ("Fingerprint", f"{headline.fingerprint}, of the plan"),
        ("Proof", f"{headline.proven}, of hardware, fabric, storage, release and checks"),
    ]


def html(headline: Headline) -> Element:
    """Return the summary as elements of the page."""
    facts = [part for name, value in _rows(headline) for part in (e("dt", name), e("dd", value))]
    return e(
        "header",
        e("p", f"Certificate of a cluster, cloud {headline.cloud}", class_="kind"),
        e(
            "div",
            e("h1", headline.cluster),
            e("div", verdict_mark(headline.verdict), class_=f"whole {headline.verdict}"),
            class_="title",
        ),
        e("dl", *facts),
        *(e("p", note, class_="note") for note in headline.notes),
    )


def markdown(headline: Headline) -> list[str]:
    """Return the summary as lines of Markdown."""
    title = f"# Cluster {plain(headline.cluster)} on {plain(headline.cloud)}: {headline.verdict}"
    return [title, "", *items(f"{name}: {value}" for name, value in _rows(headline)), "", *items(headline.notes)]
