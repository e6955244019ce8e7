"""`stampworks qualify` and `stampworks verify`: measuring a cluster against its plan, and checking a certificate."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, connections, exits, stacks

if TYPE_CHECKING:
    from stampworks.qualification import Certificate, Checked

LEVELS = ("quick", "standard", "burn-in")
BUDGET_MINUTES_MAX = 10_080
"""A week, as in a declaration."""


def add_verbs(verbs: Any) -> None:
    """Add the verbs `qualify` and `verify`."""
    qualify = verbs.add_parser("qualify", help="measure nodes against their plan", allow_abbrev=False)
    stacks.add_stack_option(qualify)
    qualify.add_argument(
        "--nodes", metavar="NODE", nargs="+", default=[], help="these, together with free nodes (default: all)"
    )
    qualify.add_argument(
        "--level", metavar="LEVEL", choices=LEVELS, help="extent of the proof (default: as declared, else standard)"
    )
    qualify.add_argument(
        "--budget", metavar="MINUTES", type=_minutes, help="time limit (default: as declared for the level)"
    )
    qualify.add_argument("--json", action="store_true", help="print the findings as JSON")
    qualify.set_defaults(call=qualify_nodes)
    verify = verbs.add_parser("verify", help="check a certificate and its signature", allow_abbrev=False)
    verify.add_argument("certificate", metavar="CERT", help="its file: pulumi stack output certificate --show-secrets")
    verify.add_argument(
        "--key", metavar="PUB", help="file of the public key: pulumi stack output verification_key (default: none)"
    )
    verify.add_argument("--json", action="store_true", help="print the verdict as JSON")
    verify.set_defaults(call=verify_certificate)


def qualify_nodes(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine if all nodes pass. Failed nodes take no jobs until they pass."""
    from stampworks import configuration, operations, qualification
    from stampworks.cli.output import Progress
    from stampworks.plan import BUDGET_MINUTES, fingerprint
    from stampworks.schedulers import kubernetes

    connections.expect_administrator("qualify", arguments.stack)
    plan, roster = clusters.workers_of(arguments.stack)
    level = arguments.level or (plan.proof.level if plan.proof.level != "none" else "standard")
    declared = plan.proof.budget_minutes if level == plan.proof.level else BUDGET_MINUTES[level]
    proof = dataclasses.replace(plan.proof, budget_minutes=arguments.budget or declared)
    subject = qualification.subject_of(dataclasses.replace(plan, proof=proof), kubernetes.claims(plan))
    with Progress(f"qualifying stack {arguments.stack}") as progress:
        certificate = operations.qualify(
            subject,
            roster,
            level,
            progress,
            names=arguments.nodes or None,
            fingerprint=fingerprint(plan),
            programs=configuration.programs_digest(),
        )
    _show(certificate, arguments)
    together = [finding.verdict for finding in certificate.findings if not finding.nodes]
    named = [node.verdict for node in certificate.nodes if node.name in arguments.nodes]
    return exits.OF_VERDICT[qualification.worst([*named, *together]) if arguments.nodes else certificate.verdict]


def _minutes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= BUDGET_MINUTES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of minutes from 1 to {BUDGET_MINUTES_MAX}")
    return int(text)


def verify_certificate(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when the signature matches the key and the certificate says pass."""
    from stampworks import qualification

    key = text_of(arguments.key) if arguments.key else ""
    checked = verified(arguments.certificate, text_of(arguments.certificate), key)
    if arguments.json:
        found = {"signature": checked.signature, "why": checked.why, "verdict": checked.certificate.verdict}
        print(json.dumps(found, indent=2))
    else:
        _explain(checked, arguments)
    return exits.OF_VERDICT[qualification.worst([checked.signature, checked.certificate.verdict])]


def text_of(file: str) -> str:
    """Return the text of a file with a certificate or a key."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise exits.CliError(f"{file}: it is no text: {error.reason}", WHENCE) from None


def verified(where: str, certificate: str, key: str) -> Checked:
    """Check a certificate from somewhere with a public key, which may be missing."""
    from stampworks import qualification

    try:
        return qualification.verify(certificate, key)
    except qualification.CertificateError as error:
        raise exits.CliError(f"{where}: {error}", WHENCE) from None


WHENCE = "pulumi stack output certificate --show-secrets writes one, pulumi stack output verification_key its key"


def _show(certificate: Certificate, arguments: argparse.Namespace) -> None:
    from stampworks.plan import to_json
    from stampworks.views.certificate import certificate_text

    print(to_json(certificate) if arguments.json else certificate_text(certificate, _width()), end="")


def _explain(checked: Checked, arguments: argparse.Namespace) -> None:
    from stampworks.views.certificate import certificate_text

    print(f"signature: {checked.signature}: {checked.why}\n")
    print(certificate_text(checked.certificate, _width()), end="")
    if checked.signature == "unknown":
        print(f"\nhint: stampworks verify {arguments.certificate} --key PUB verifies the signer")


def _width() -> int:
    from stampworks.cli.output import terminal_width

    return terminal_width() if sys.stdout.isatty() else 120
