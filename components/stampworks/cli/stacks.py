"""From a stack's name to its plan and its running cluster."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stampworks.cli import exits

if TYPE_CHECKING:
    from stampworks.declaration import Source
    from stampworks.plan import Plan, Roster

DEFAULT_STACK = "local"


def add_stack_option(parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup) -> None:
    parser.add_argument(
        "-s",
        "--stack",
        metavar="STACK",
        default=os.environ.get("STAMPWORKS_STACK") or DEFAULT_STACK,
        help="which environment: its Pulumi.STACK.yaml, or a plan's JSON file (default: $STAMPWORKS_STACK, else "
        f"{DEFAULT_STACK})",
    )


def source_of(stack: str) -> Source:
    """The declaration of a stack of the project that the working directory is in."""
    from stampworks.declaration import load_stack

    return load_stack(stack, folder())


def plan_of(stack: str) -> Plan:
    """A stack's plan; a cluster that is declared in Python has no other file than the plan itself."""
    from stampworks.planning import plan

    return _written_plan(Path(stack)) if stack.endswith(".json") else plan(source_of(stack))


def _written_plan(file: Path) -> Plan:
    from stampworks.plan import Plan, from_json

    try:
        return from_json(Plan, file.read_text())
    except ValueError as error:  # also what is not JSON
        hint = "write it anew: pulumi stack output plan, or stampworks plan --json"
        raise exits.CliError(f"{file} is no plan of this release of stampworks: {error}", hint) from None


def cluster_of(stack: str) -> tuple[Plan, Roster]:
    """The plan of a stack and who is in its cluster now; an error when no cluster runs."""
    from stampworks.operations import members

    plan = plan_of(stack)
    roster = members(plan.cloud, plan.name)
    if not roster.members:
        start = "pulumi up" if stack.endswith(".json") else f"pulumi up -s {stack}"
        raise exits.CliError(f"no cluster of stack {stack!r} is running", f"start it: {start}", code=exits.NO)
    return plan, roster


def project() -> Path:
    for folder in _upward(Path.cwd()):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    raise exits.CliError(
        f"no Pulumi.yaml in {Path.cwd()} or above it", "change to a clone of Stampworks or a project that uses it"
    )


def folder() -> Path:
    """Where Pulumi looks for the files of the project's stacks."""
    import yaml

    file = project() / "Pulumi.yaml"
    try:
        content = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, ValueError):
        hint = "`pulumi about` says where it is broken"
        raise exits.CliError(f"{file} is not YAML", hint) from None
    return file.parent / (content.get("stackConfigDir") or "." if isinstance(content, dict) else ".")


def _upward(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.parents
