"""`stampworks report`: what was proven and trained, as a page, as Markdown or as JSON."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, qualify, stacks, stamped, state

if TYPE_CHECKING:
    from stampworks.plan import Plan
    from stampworks.qualification import Certificate
    from stampworks.views.report import Event, Left, Report

FORMATS = ("html", "markdown", "json")
_OURS = "stampworks:"
_QUALIFICATION = "stampworks:cluster:Qualification"
_SIGNING_KEY = "stampworks:cluster:SigningKey"
_NOT_MADE = ("stampworks:cluster:Cluster", _QUALIFICATION)
"""The component around all others, and the proof itself, whose own times are in the certificate."""


def add_verbs(verbs: Any) -> None:
    report = verbs.add_parser("report", help="write the results of a proof as one page", allow_abbrev=False)
    of = report.add_mutually_exclusive_group()
    stacks.add_stack_option(of)
    of.add_argument("certificate", metavar="CERT", nargs="?", help="instead of a stack: the file of a certificate")
    runs = report.add_mutually_exclusive_group()
    runs.add_argument(
        "--run",
        metavar="NAME",
        action="append",
        default=[],
        help="with this training run of the stack's cluster alone; may be said again (default: the newest 20)",
    )
    runs.add_argument(
        "--record",
        metavar="FILE",
        action="append",
        default=[],
        help="with a training run's record from a file instead; may be said again",
    )
    report.add_argument(
        "--earlier",
        metavar="CERT",
        action="append",
        default=[],
        help="with the certificate of an earlier proof beside those that the backend keeps; may be said again",
    )
    report.add_argument("--key", metavar="PUB", help="file of the public key (default: the one in the stack's state)")
    report.add_argument("--format", metavar="FORMAT", choices=FORMATS, default="html", help="html, markdown or json")
    report.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: standard output)")
    report.set_defaults(call=write_report)


def write_report(arguments: argparse.Namespace) -> int:
    """Fine when the report is written, whatever it says."""
    from stampworks.views.report import report_html, report_json, report_markdown

    found = _of_file(arguments) if arguments.certificate else _of_stack(arguments)
    written = {"html": report_html, "markdown": report_markdown, "json": report_json}
    text = written[arguments.format](found)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return exits.FINE


def _of_file(arguments: argparse.Namespace) -> Report:
    from stampworks.views.report import report_of

    file = arguments.certificate
    if arguments.run:
        hint = "name the stack with -s, or the file of its record with --record"
        raise exits.CliError("--run needs a cluster, and a certificate's file does not lead to one", hint)
    key = qualify.text_of(arguments.key) if arguments.key else ""
    checked = qualify.verified(file, qualify.text_of(file), key)
    more: dict[str, Any] = {"runs": _left(arguments)} if arguments.record else {}
    if arguments.earlier:
        more["earlier"] = _named_proofs(arguments.earlier, key)
    return report_of(checked, **more)


def _of_stack(arguments: argparse.Namespace) -> Report:
    """Also of a stack whose last `up` failed because of what was found: that is when a report is read."""
    from stampworks.cli.output import Progress
    from stampworks.views.report import report_of

    stack = arguments.stack
    if stack.endswith(".json"):
        what = f"{stack} is a plan, and a report needs a proof"
        raise exits.CliError(what, f"name a certificate's file without -s: {qualify.WHENCE}")
    try:
        with Progress("reading the certificate from Pulumi"):
            resources = state.resources(stack)
    except state.SilentError as error:
        why = f"cannot read the certificate of stack {stack!r}: {error}"
        raise exits.CliError(why, "stampworks report CERT needs no Pulumi", exits.UNKNOWN) from None
    plan = stamped.chosen(stack, resources, stamped.declared_in(stack))
    certificate = (state.outputs(resources, _QUALIFICATION) or {}).get("certificate")
    if not isinstance(certificate, str):
        hint = f"pulumi up -s {stack} ends with a proof, unless proof.level is none"
        raise exits.CliError(f"stack {stack!r} has no certificate", hint, exits.NO)
    key = qualify.text_of(arguments.key) if arguments.key else _key(resources)
    checked = qualify.verified(f"stack {stack!r}", certificate, key)
    runs = _left(arguments) if arguments.record else _runs(plan, arguments.run)
    return report_of(checked, plan, _stamping(resources), runs, _proofs(resources, arguments.earlier, key))


def _proofs(resources: Sequence[Mapping[str, Any]], files: Sequence[str], key: str) -> list[Certificate] | str:
    """Return the certificates of earlier proofs, from files and from the backend; where it has none, the reason."""
    from stampworks import qualification

    found = _named_proofs(files, key)
    try:
        for before in state.earlier(resources):
            kept = (state.outputs(before, _QUALIFICATION) or {}).get("certificate")
            with contextlib.suppress(qualification.CertificateError):
                checked = qualification.verify(str(kept), key)
                found += [checked.certificate] if checked.signature == "pass" else []
    except state.SilentError as error:
        return found or f"Earlier proofs are unknown: {error}. --earlier adds their files."
    return found


def _named_proofs(files: Sequence[str], key: str) -> list[Certificate]:
    found = []
    for file in files:
        checked = qualify.verified(file, qualify.text_of(file), key)
        if checked.signature == "fail":
            raise exits.CliError(f"{file}: {checked.why}", "--earlier takes certificates of the same cluster")
        found.append(checked.certificate)
    return found


def _left(arguments: argparse.Namespace) -> list[Left]:
    """A file that is no record is refused: it was asked for."""
    from stampworks.views.report import left

    found = [left(Path(file).stem, qualify.text_of(file)) for file in arguments.record]
    for file, one in zip(arguments.record, found, strict=True):
        if one.record is None:
            hint = "a run leaves one as runs/NAME/record.json in the directory that all nodes share"
            raise exits.CliError(f"{file}: {one.why.removesuffix('.')}", hint)
    return found


def _runs(plan: Plan, names: Sequence[str]) -> list[Left] | str:
    """Return the records of the cluster's runs; where it cannot be asked, the reason, unless runs are named."""
    from stampworks import operations
    from stampworks.cli.output import Progress
    from stampworks.views.report import Left, left

    try:
        roster = operations.members(plan.cloud, plan.name, plan.region)
        if not roster.members:
            raise operations.InputError(
                f"cluster {plan.name} is not running", "runs are read from its shared directory"
            )
        with Progress("reading records of runs from the cluster"):
            found = operations.records(plan, roster, names)
    except operations.OperationError as error:
        if names:
            raise
        return f"Training runs are unknown: {str(error).partition(chr(10))[0]}."
    return [Left(each.name, None, each.why) if each.why else left(each.name, each.text) for each in found]


def _key(resources: Sequence[Mapping[str, Any]]) -> str:
    found = (state.outputs(resources, _SIGNING_KEY) or {}).get("publicKey")
    return found if isinstance(found, str) else ""


def _stamping(resources: Sequence[Mapping[str, Any]]) -> list[Event]:
    """When the backend learned of each resource, and of its last change, to the second."""
    from stampworks.views.report import Event

    at: dict[tuple[str, str], list[str]] = {}
    for each in resources:
        kind, name = each["type"], str(each.get("urn", "")).rpartition("::")[2]
        if kind.startswith(_OURS) and kind not in _NOT_MADE:
            made, changed = (str(each.get(time, "")).partition(".")[0].rstrip("Z") for time in ("created", "modified"))
            words = f"{kind.rpartition(':')[2]} {name}"
            at.setdefault((made, "made"), []).append(words)
            if changed != made:
                at.setdefault((changed, "changed"), []).append(words)
    return [Event(f"{second}Z", f"{verb}: {', '.join(what)}") for (second, verb), what in at.items() if second]
