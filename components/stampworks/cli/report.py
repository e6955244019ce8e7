"""`stampworks report`: results of proofs and training, as a page, Markdown or JSON."""

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
"""Types without times of their own: the component around all others, and the proof, whose certificate has the times."""


def add_verbs(verbs: Any) -> None:
    """Add the verb `report` and its options."""
    report = verbs.add_parser("report", help="write the results of a proof as a page", allow_abbrev=False)
    of = report.add_mutually_exclusive_group()
    stacks.add_stack_option(of)
    of.add_argument("certificate", metavar="CERT", nargs="?", help="instead of a stack: the file of a certificate")
    runs = report.add_mutually_exclusive_group()
    runs.add_argument(
        "--run",
        metavar="NAME",
        action="append",
        default=[],
        help="show only this training run of the stack's cluster; repeatable (default: the newest 20)",
    )
    runs.add_argument(
        "--record",
        metavar="FILE",
        action="append",
        default=[],
        help="show the record of a training run from a file instead; repeatable",
    )
    report.add_argument(
        "--earlier",
        metavar="CERT",
        action="append",
        default=[],
        help="add the certificate of an earlier proof to those in the backend; may be repeated",
    )
    report.add_argument("--key", metavar="PUB", help="file of the public key (default: the one in the stack's state)")
    report.add_argument("--format", metavar="FORMAT", choices=FORMATS, default="html", help="html, markdown or json")
    report.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")
    report.set_defaults(call=write_report)


def write_report(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when the report is written, whatever its verdict."""
    from stampworks.views.report import report_html, report_json, report_markdown

    found = _file_report(arguments) if arguments.certificate else _stack_report(arguments)
    written = {"html": report_html, "markdown": report_markdown, "json": report_json}
    text = written[arguments.format](found)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return exits.FINE


def _file_report(arguments: argparse.Namespace) -> Report:
    from stampworks.views.report import report_of

    file = arguments.certificate
    if arguments.run:
        hint = "name the stack with -s, or the file of its record with --record"
        raise exits.CliError("--run needs a cluster, and a certificate's file does not lead to one", hint)
    key = qualify.text_of(arguments.key) if arguments.key else ""
    checked = qualify.verified(file, qualify.text_of(file), key)
    more: dict[str, Any] = {"runs": _records(arguments)} if arguments.record else {}
    if arguments.earlier:
        more["earlier"] = _named_proofs(arguments.earlier, key)
    return report_of(checked, **more)


def _stack_report(arguments: argparse.Namespace) -> Report:
    """Return the report of a stack, even if its last `up` failed because of the findings: then it is needed most."""
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
    runs = _records(arguments) if arguments.record else _runs(plan, arguments.run)
    return report_of(checked, plan, _stamping(resources), runs, _proofs(resources, arguments.earlier, key))


def _proofs(resources: Sequence[Mapping[str, Any]], files: Sequence[str], key: str) -> list[Certificate] | str:
    """Return the certificates of earlier proofs, from files and from the backend; if it has none, the reason."""
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


def _records(arguments: argparse.Namespace) -> list[Left]:
    """A file that is no record is refused: it was asked for."""
    from stampworks.views.report import left

    found = [left(Path(file).stem, qualify.text_of(file)) for file in arguments.record]
    for file, one in zip(arguments.record, found, strict=True):
        if one.record is None:
            hint = "a run leaves one as runs/NAME/record.json in the directory that all nodes share"
            raise exits.CliError(f"{file}: {one.why.removesuffix('.')}", hint)
    return found


def _runs(plan: Plan, names: Sequence[str]) -> list[Left] | str:
    """Return the records of the cluster's runs; if it cannot be reached, the reason, unless runs are named."""
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
    """Return when the backend registered each resource and its last change, to the second."""
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
