"""A certificate names its signer, and any change of it shows."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.qualification import Certificate, CertificateError, CheckFinding, NodeVerdict, RailVerdict
from stampworks.qualification.certificate import Measured, new_key, signed, verify, worst

PRIVATE, PUBLIC = new_key()
CERTIFICATE = Certificate(
    version=1, cluster="local", cloud="local", fingerprint="0123456789abcdef", proven="fedcba9876543210",
    release="2026.11", level="standard", verdict="fail", started="2026-11-21T19:00:00Z", ended="2026-11-21T19:01:00Z",
    nodes=(NodeVerdict("gpu-001", "7", "fail", True, "2026-11-21T19:00:00Z", ("rail1 is slow",)),),
    rails=(RailVerdict("rail1", "fail", ("rail1 is slow",)),),
    findings=(
        CheckFinding("rails", "fail", ("gpu-001",), "rail1", "pair_bandwidth", "Gb/s", 0, 0.04, 0.16, "slow", False),
        CheckFinding("limits", "pass", ("gpu-001",), "", "", "", 0, None, None, "as declared, ü", True),
    ),
    measured=(Measured("pair_bandwidth", "Gb/s", "gpu-001", "gpu-002", "rail1", 0, 0.04, 0.03, 0.05, 9, 0.19, False),),
    toolkit="0.1.0",
)  # fmt: skip
FILE = signed(CERTIFICATE, PRIVATE)


def test_signed_certificates_are_accepted() -> None:
    """The format of the file does not matter."""
    for text in (FILE, json.dumps(json.loads(FILE), sort_keys=True)):
        checked = verify(text, PUBLIC)
        assert (checked.signature, checked.certificate) == ("pass", CERTIFICATE)


def test_without_a_key_nothing_is_known() -> None:
    """Anybody may have written it, so that it is no pass."""
    checked = verify(FILE)
    assert (checked.signature, checked.why) == ("unknown", "no key was given, so that its author is not verified")


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))
    if not isinstance(value, (dict, list)):
        yield path


@pytest.mark.parametrize("path", list(places(json.loads(FILE)["certificate"])), ids=str)
def test_any_change_shows(path: tuple[Any, ...]) -> None:
    """A change of any value is refused as no certificate, or known."""
    content = json.loads(FILE)
    parent = content["certificate"]
    for step in path[:-1]:
        parent = parent[step]
    old = parent[path[-1]]
    parent[path[-1]] = {str: f"{old}x", int: 2, float: 9.5, bool: not old, type(None): 1.0}[type(old)]
    with contextlib.suppress(CertificateError):
        assert verify(json.dumps(content), PUBLIC).signature == "fail"


def test_signature_of_another_key_fails() -> None:
    """The error names both keys."""
    checked = verify(FILE, new_key()[1])
    assert checked.signature == "fail"
    assert checked.why.startswith("it is signed by key ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not a certificate: JSONDecodeError"),
        ("[]", "it is not a certificate: TypeError"),
        ("{}", "it is not a certificate: KeyError"),
        ('{"certificate": {"version": 2}}', "it is of version 2; this release reads 1"),
        ('{"certificate": {"version": 1}}', "it is not a certificate: ValueError: Certificate: lacks cluster"),
        ("[" * 100_000, "it is not a certificate"),
    ],
)
def test_invalid_certificates_are_refused(text: str, why: str) -> None:
    """The error is a sentence for any text."""
    with pytest.raises(CertificateError, match=why.replace("(", r"\(")):
        verify(text, PUBLIC)


def test_a_key_that_is_none_is_refused() -> None:
    """An ssh key, a private key, nothing readable."""
    for key in ("ssh-ed25519 AAAA", PRIVATE, "\0"):
        with pytest.raises(CertificateError, match="the key is not an ed25519 public key in PEM form"):
            verify(FILE, key)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.binary(max_size=200), st.integers(0, len(FILE)))
def test_garbage_never_passes(garbage: bytes, at: int) -> None:
    """Any content is refused or does not verify, without another effect."""
    text = FILE[:at] + garbage.decode(errors="replace") + FILE[at:]
    try:
        checked = verify(text, PUBLIC)
    except CertificateError:
        return
    assert checked.signature == "fail" or checked.certificate == CERTIFICATE


def test_the_worst_wins() -> None:
    """The worst verdict counts; no verdict at all is unknown."""
    assert worst(["pass", "pass"]) == "pass"
    assert worst(["pass", "unknown"]) == "unknown"
    assert worst(["unknown", "fail", "pass"]) == "fail"
    assert worst([]) == "unknown"
