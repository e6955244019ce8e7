"""From a Pulumi stack to the plan of its cluster."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pulumi
import yaml

from stampworks.cli.facts import known_facts
from stampworks.declaration import DeclarationError, Source, load_stack, load_value
from stampworks.plan import Plan
from stampworks.planning import Finding, plan, rules

_NAMESPACE, _KEY = "stampworks", "cluster"


_ALREADY_SHOWN = 32
"""The exit status by which a Pulumi program says that the user has seen its error: with any other one, a RunError's
included, the engine adds a second error about the exit status."""


def plan_of_stack(directory: Path) -> Plan:
    """The plan of what this stack declares. When there can be none the program ends here and nothing is created.

    The directory is where the stack's file and what it extends are: every problem points at the user's own line.
    """
    try:
        # Problems name files as one would from where `pulumi` is called.
        directory = directory.absolute()
        with contextlib.chdir(pulumi.runtime.get_root_directory()):
            made = plan(_source(directory))
    except DeclarationError as error:
        _refuse(str(error))
    refused = [finding for finding in rules(made, known_facts()) if finding.verdict == "fail"]
    if refused:
        _refuse(_explain(refused))
    return made


def _refuse(text: str) -> NoReturn:
    pulumi.log.error(text)
    warnings.simplefilter("ignore")  # about the registrations that the SDK had begun, and that are dropped on purpose
    raise SystemExit(_ALREADY_SHOWN)


def _source(directory: Path) -> Source:
    stack = pulumi.get_stack()
    value = pulumi.Config(_NAMESPACE).get_object(_KEY)
    if value is None or value == _written(directory / f"Pulumi.{stack}.yaml"):
        return load_stack(stack, directory)
    # Set in another way, for instance by the Automation API: that is what counts, and it has no lines.
    return load_value(value, f"{_NAMESPACE}:{_KEY} of stack {stack}")


def _written(file: Path) -> Any:
    """What the stack's file says, or None when it says nothing that could be compared."""
    try:
        content = yaml.safe_load(file.read_text())
        return content["config"][f"{_NAMESPACE}:{_KEY}"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None


def _explain(findings: Sequence[Finding]) -> str:
    lines = [f"{one.id}: {one.text}\n  hint: {one.hint}" if one.hint else f"{one.id}: {one.text}" for one in findings]
    return "\n\n".join([*lines, "nothing was changed."])
