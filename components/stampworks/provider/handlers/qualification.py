"""The proof of a cluster. Resources that depend on it are not created before it has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stampworks import operations, plan, qualification
from stampworks.properties import QUALIFICATION
from stampworks.provider.handler import Call, Handler
from stampworks.qualification import Certificate, Subject
from stampworks.text.names import fold
from stampworks.wire.values import said


class NotProvenError(Exception):
    """The cluster exists and does not meet its plan."""


class Qualification(Handler):
    """Measures the members of a roster against their plan: those that changed, or all if the checks changed."""

    table = QUALIFICATION

    def drift(self, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Return nodes that were not proven last time, or are held back since. The next `up` measures them again."""
        earlier = read_certificate(outputs)
        lines = qualification.open_questions(earlier) if earlier else ["no certificate exists yet"]
        since = super().drift(outputs)
        return {"verdict": [f"proof: {line}" for line in lines], **since} if lines else since

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Measure what is not proven yet. Raise an error if a node misses its expectations."""
        subject, roster = _subject(call), plan.from_dict(plan.Roster, call.inputs["roster"])
        public_key = qualification.public_key(call.inputs["signingKey"])
        earlier = read_certificate(call.old_outputs, public_key)
        programs = call.inputs["programs"]
        names = await call.thread(operations.to_prove, subject, roster, earlier, subject.proof.level, programs)
        certificate = await call.thread(
            operations.qualify,
            subject,
            roster,
            subject.proof.level,
            call.progress,
            names=names,
            earlier=earlier,
            rolled=read_certificate({"certificate": call.inputs["rolled"]}, public_key),
            fingerprint=call.inputs["fingerprint"],
            programs=programs,
        )
        outputs = {
            "verdict": certificate.verdict,
            "certificate": qualification.signed(certificate, call.inputs["signingKey"]),
            "drift": [],
        }
        if certificate.verdict != "pass":
            call.left = outputs  # the evidence outlives the failure
            raise NotProvenError(qualification.shortfall(certificate))
        return outputs

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the last results, for reading measures nothing. The scheduler names the nodes that are held back
        since."""
        known = {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}
        return {**known, "drift": await _held_since(call)} if "roster" in call.inputs else known

    async def remains(self, call: Call) -> dict[str, Any] | None:
        """Return the evidence of a failed proof, which the state keeps."""
        return dict(call.left) or await self.read(call)

    async def delete(self, call: Call) -> None:
        """Do nothing: measurements are worthless without their nodes."""
        # the nodes go, and with them the measurements


def _subject(call: Call) -> Subject:
    return plan.from_dict(Subject, said(call.inputs["subject"]))


async def _held_since(call: Call) -> list[str]:
    """Return nodes that have passed and still take no jobs, such as a node that reports a change before a job."""
    subject, roster = _subject(call), plan.from_dict(plan.Roster, call.inputs["roster"])
    certificate = read_certificate(call.old_outputs)
    passed = {node.name for node in certificate.nodes if node.verdict == "pass"} if certificate else set()
    reasons: dict[str, list[str]] = {}
    try:
        held = await call.thread(operations.held_back, subject, roster)
    except operations.OperationError as error:
        call.progress(f"held nodes cannot be listed: {str(error).splitlines()[0]}")
        return []
    for name, why in held.items():
        if name in passed:
            reasons.setdefault(why, []).append(name)
    return [f"proof: {fold(names)} (held back since): {why}" for why, names in reasons.items()]


def read_certificate(outputs: Mapping[str, Any], key: str = "") -> Certificate | None:
    """Return the last certificate, if the state has one that can be read and that is signed by the key."""
    try:
        checked = qualification.verify(outputs["certificate"], key)
    except (KeyError, ValueError):
        return None
    return None if checked.signature == "fail" else checked.certificate
