"""The signed verdicts of one qualification, with the subject and the measurements that prove them.

The file contains the certificate in plain text and a signature over its canonical form. It can be read without any
program and checked without any network.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from stampworks import plan

VERSION = 1
_DOMAIN = b"stampworks certificate 1\n"
"""Prefix of the signed bytes, so that a signature over other data cannot pass as one of a certificate."""
SIZE_MAX = 64 << 20

Verdict = Literal["pass", "fail", "unknown"]
_ORDER: tuple[Verdict, ...] = ("pass", "unknown", "fail")


@dataclass(frozen=True)
class CheckFinding:
    """A finding of a check about some nodes: a verdict with its numbers and words."""

    check: str
    verdict: Verdict
    nodes: tuple[str, ...]
    """The nodes that it is about; for a failure, the culprits. Empty for the whole cluster."""
    rail: str
    quantity: str
    unit: str
    bytes: int
    measured: float | None
    expected: float | None
    """The value to reach; None for a check that compares no number."""
    why: str
    simulated: bool
    derivation: str = ""
    """Derivation of the expected number."""


def finding_without_number(
    check: str, verdict: Verdict, nodes: tuple[str, ...], why: str, simulated: bool = False
) -> CheckFinding:
    """Make a finding that compares no number: its text says everything."""
    return CheckFinding(check, verdict, nodes, "", "", "", 0, None, None, why, simulated)


@dataclass(frozen=True)
class NodeVerdict:
    """The verdict on one node."""

    name: str
    instance: str
    """Instance id of the machine that was proven."""
    verdict: Verdict
    held: bool
    """Whether this verdict keeps it from taking jobs."""
    proven: str
    """The time in UTC; an unchanged node keeps its proof."""
    why: tuple[str, ...]


@dataclass(frozen=True)
class RailVerdict:
    """The verdict on one rail of the cluster."""

    name: str
    verdict: Verdict
    why: tuple[str, ...]


@dataclass(frozen=True)
class Certificate:
    """The results of one qualification, without the signature."""

    version: int
    cluster: str
    cloud: str
    fingerprint: str
    """Fingerprint of the plan that was proven."""
    proven: str
    """Digest of everything that a proof holds for: hardware, fabric, storage, release and checks."""
    release: str
    level: plan.Level
    verdict: Verdict
    """The worst verdict of all nodes in service and of the findings about the whole cluster."""
    started: str
    ended: str
    nodes: tuple[NodeVerdict, ...]
    rails: tuple[RailVerdict, ...]
    findings: tuple[CheckFinding, ...]
    measured: tuple[Measured, ...]
    toolkit: str
    """The version of Stampworks that gave the verdicts."""


@dataclass(frozen=True)
class Measured:
    """A measured value and its expected value: one row of a report."""

    quantity: str
    unit: str
    node: str
    peer: str
    rail: str
    bytes: int
    value: float
    low: float
    high: float
    samples: int
    expected: float | None
    simulated: bool
    device: str = ""
    """Name of the accelerator or the directory, for a node that has several."""


@dataclass(frozen=True)
class Checked:
    """The result of verifying a file."""

    signature: Verdict
    """Unknown without a key."""
    why: str
    certificate: Certificate


class CertificateError(ValueError):
    """The file is not a certificate."""


def worst(verdicts: Any) -> Verdict:
    """Return the worst of several verdicts; unknown when there are none, because nothing was checked."""
    return max(verdicts, key=_ORDER.index, default="unknown")


def canonical(certificate: dict[str, Any]) -> bytes:
    """Return the bytes to sign: equal for equal content, regardless of the file's formatting."""
    text = json.dumps(certificate, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _DOMAIN + text.encode()


def _key_id(public: Ed25519PublicKey) -> str:
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def new_key() -> tuple[str, str]:
    """Return a new private and public key, as PEM."""
    private = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    return (
        private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
        private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo).decode(),
    )


def public_key(private_pem: str) -> str:
    """Return the public half of a private key, as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _private(private_pem).public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def signed(certificate: Certificate, private_pem: str) -> str:
    """Return the text of the certificate file."""
    key = _private(private_pem)
    data = json.loads(json.dumps(plan.to_dict(certificate)))  # the same data that a reader will parse
    signature = {
        "algorithm": "ed25519",
        "key": _key_id(key.public_key()),
        "value": base64.b64encode(key.sign(canonical(data))).decode(),
    }
    return json.dumps({"certificate": data, "signature": signature}, indent=2, ensure_ascii=False) + "\n"


def verify(text: str, public_pem: str = "") -> Checked:
    """Check whether the key's holder signed the file; raise CertificateError when it is not a certificate."""
    content, certificate = _read(text)
    if not public_pem:
        return Checked("unknown", "no key was given, so that its author is not verified", certificate)
    public = _public(public_pem)
    signature = content.get("signature")
    if not isinstance(signature, dict) or signature.get("algorithm") != "ed25519":
        return Checked("fail", "it has no ed25519 signature", certificate)
    if signature.get("key") != _key_id(public):
        return Checked(
            "fail", f"it is signed by key {_short(signature.get('key'))}, not {_key_id(public)}", certificate
        )
    try:
        value = base64.b64decode(str(signature.get("value")), validate=True)
        public.verify(value, canonical(content["certificate"]))
    except (ValueError, InvalidSignature):
        return Checked("fail", "it was changed after it was signed", certificate)
    return Checked("pass", f"signed by key {_key_id(public)}", certificate)


def _read(text: str) -> tuple[dict[str, Any], Certificate]:
    if len(text) > SIZE_MAX:
        raise CertificateError(f"it is larger than {SIZE_MAX >> 20} MiB")
    try:
        content = json.loads(text)
        data = content["certificate"]
        if data["version"] != VERSION:
            raise CertificateError(f"it is of version {_short(data['version'])}; this release reads {VERSION}")
        return content, plan.from_dict(Certificate, data)
    except CertificateError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CertificateError(f"it is not a certificate: {type(error).__name__}: {_short(error)}") from None


def _private(pem: str) -> Ed25519PrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise CertificateError("the signing key is not an ed25519 key")
    return key


def _public(pem: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise CertificateError("the key is not an ed25519 public key in PEM form")
    return key


def _short(value: object) -> str:
    return str(value)[:80]
