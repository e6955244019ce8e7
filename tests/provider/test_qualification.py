"""Certificates of the Qualification resource: signed, kept as evidence, with open findings remembered."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from stampworks import operations, plan, qualification
from stampworks.provider.handler import Call
from stampworks.provider.handlers import PACKAGE
from stampworks.provider.handlers.qualification import NotProvenError, Qualification
from stampworks.provider.server import Context, PluginServer
from stampworks.qualification import Certificate, CheckFinding
from stampworks.wire.protocol import provider_pb2 as pb
from stampworks.wire.values import encode

from tests.qualification.conftest import subject
from tests.qualification.test_certificate import CERTIFICATE, PRIVATE, PUBLIC

SUBJECT = subject(2)
PASSED = dataclasses.replace(
    CERTIFICATE, verdict="pass", nodes=tuple(dataclasses.replace(one, verdict="pass", held=False, why=()) for one in
                                             CERTIFICATE.nodes), findings=()
)  # fmt: skip


def call(**old: Any) -> Call:
    roster = plan.Roster("one", "local", (), "root", "/key", ())
    inputs = {
        "subject": json.dumps(plan.to_dict(SUBJECT)),
        "roster": plan.to_dict(roster),
        "programs": "p",
        "rolled": "",
        "fingerprint": "f",
        "signingKey": PRIVATE,
    }
    return Call("urn", "id", inputs, old_outputs=old)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Certificates of the next proofs; requests are recorded after them."""
    answers: list[Any] = []

    def qualify(*_: Any, **more: Any) -> Certificate:
        answers.append(more)
        certificate = answers.pop(0)
        assert isinstance(certificate, Certificate)
        return certificate

    monkeypatch.setattr(operations, "qualify", qualify)
    return answers


def test_subject_of_an_earlier_version_is_unchanged() -> None:
    """An upgrade of the toolkit repeats no proof; the preview reports a changed subject."""
    earlier = {**call().inputs, "subject": plan.to_dict(SUBJECT)}
    another = {**call().inputs, "subject": json.dumps(plan.to_dict(subject(3)))}

    async def differing(news: Mapping[str, Any]) -> dict[str, pb.PropertyDiff]:
        urn = f"urn:pulumi:test::test::{Qualification.table.token}::one"
        olds = encode({"certificate": qualification.signed(PASSED, PRIVATE)})
        request = pb.DiffRequest(urn=urn, old_inputs=encode(earlier), olds=olds, news=encode(news))
        return dict((await PluginServer(PACKAGE, "").Diff(request, cast(Context, None))).detailedDiff)

    assert asyncio.run(differing(call().inputs)) == {}
    assert list(asyncio.run(differing(another))) == ["subject"]


def test_a_pass_is_signed(found: list[Any]) -> None:
    """Anybody can verify the signature by the stack's key."""
    found.append(PASSED)
    outputs = asyncio.run(Qualification().ensure(call()))
    assert outputs["verdict"] == "pass"
    checked = qualification.verify(outputs["certificate"], PUBLIC)
    assert (checked.signature, checked.certificate) == ("pass", PASSED)
    assert Qualification().drift(outputs) == {}


def test_a_failure_keeps_its_evidence(found: list[Any]) -> None:
    """The error names node and reason; measurements stay in the state."""
    found.append(CERTIFICATE)
    one = call()
    with pytest.raises(NotProvenError) as caught:
        asyncio.run(Qualification().ensure(one))
    assert str(caught.value).startswith(
        "cluster local is not proven: fail\n  gpu-001 (fail, held back): rail1 is slow\n  hint: repair the named nodes"
    )
    left = asyncio.run(Qualification().remains(one))
    assert left is not None
    assert left["verdict"] == "fail"
    assert Qualification().drift(left) == {"verdict": ["proof: gpu-001 (fail, held back): rail1 is slow"]}


def test_a_failure_of_the_whole_is_not_forgotten() -> None:
    """No node is blamed, and the next `up` measures again."""
    trunk = CheckFinding("trunks", "fail", (), "rail0", "", "", 0, None, None, "rail0 between leaves is slow", False)
    whole = dataclasses.replace(PASSED, verdict="fail", findings=(trunk,))
    drift = Qualification().drift({"certificate": qualification.signed(whole, PRIVATE)})
    assert drift == {"verdict": ["proof: trunks (fail): rail0 between leaves is slow"]}


@pytest.mark.parametrize("certificate", [None, "", "{}", "no JSON"])
def test_a_proof_that_cannot_be_read_is_none(certificate: str | None) -> None:
    """Unreadable counts as unknown, never as a pass."""
    outputs = {} if certificate is None else {"certificate": certificate}
    assert Qualification().drift(outputs) == {"verdict": ["proof: no certificate exists yet"]}


def test_a_certificate_that_somebody_changed_is_not_believed(found: list[Any]) -> None:
    """The cluster is measured again, as without a certificate."""
    text = qualification.signed(PASSED, PRIVATE).replace("fedcba9876543210", "0000000000000000")
    found.append(PASSED)
    asyncio.run(Qualification().ensure(call(certificate=text)))
    assert found[-1]["earlier"] is None


def test_newly_held_node_is_drift(found: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that its prolog holds is measured by the next `up`, which sets it free when it passes."""
    names = [one.name for one in PASSED.nodes]
    monkeypatch.setattr(operations, "held_back", lambda *_: {names[0]: "memlock is small", "stranger": "x"})
    text = qualification.signed(PASSED, PRIVATE)
    outputs = asyncio.run(Qualification().read(call(verdict="pass", certificate=text)))
    assert outputs is not None
    assert outputs["certificate"] == text
    assert Qualification().drift(outputs) == {"drift": [f"proof: {names[0]} (held back since): memlock is small"]}
    found.append(PASSED)
    monkeypatch.setattr(operations, "to_prove", lambda *_: names)
    assert Qualification().drift(asyncio.run(Qualification().ensure(call(**outputs)))) == {}


def test_a_look_that_nobody_answers_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known findings stay: a refresh does not fail because of it."""

    def unknown(*_: Any) -> dict[str, str]:
        raise operations.UnknownError("AWS us-west-2: the Kubernetes of cluster one: not permitted", "allow it")

    monkeypatch.setattr(operations, "held_back", unknown)
    told: list[str] = []
    looks = call(verdict="pass", certificate=qualification.signed(PASSED, PRIVATE))
    looks.say = told.append
    outputs = asyncio.run(Qualification().read(looks))
    assert outputs is not None
    assert (outputs["verdict"], outputs["drift"]) == ("pass", [])
    assert told == ["held nodes cannot be listed: AWS us-west-2: the Kubernetes of cluster one: not permitted"]


def test_failed_node_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate says that the node is held back, and why."""
    monkeypatch.setattr(operations, "held_back", lambda *_: {"gpu-001": "rail1 is slow"})
    outputs = asyncio.run(Qualification().read(call(certificate=qualification.signed(CERTIFICATE, PRIVATE))))
    assert outputs is not None
    assert Qualification().drift(outputs) == {"verdict": ["proof: gpu-001 (fail, held back): rail1 is slow"]}


def test_node_drained_by_a_person_is_no_drift() -> None:
    """Status shows the drain, and the proof is not repeated."""
    held = dataclasses.replace(PASSED.nodes[0], verdict="unknown", held=True, why=("held by alice: new cable",))
    certificate = dataclasses.replace(PASSED, nodes=(held,))
    assert Qualification().drift({"certificate": qualification.signed(certificate, PRIVATE)}) == {}
