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
        help=f"which environment: stacks/Pulumi.STACK.yaml (default: $STAMPWORKS_STACK, else {DEFAULT_STACK})",
    )


def source_of(stack: str) -> Source:
    """The declaration of a stack of the project that the working directory is in."""
    from stampworks.declaration import load_stack

    return load_stack(stack, _project() / "stacks")


def plan_of(stack: str) -> Plan:
    from stampworks.planning import plan

    return plan(source_of(stack))


def cluster_of(stack: str) -> tuple[Plan, Roster]:
    """The plan of a stack and who is in its cluster now; an error when no cluster runs."""
    from stampworks.operations import members

    plan = plan_of(stack)
    roster = members(plan.cloud, plan.name)
    if not roster.members:
        raise exits.CliError(
            f"no cluster of stack {stack!r} is running", f"start it: pulumi up -s {stack}", code=exits.NO
        )
    return plan, roster


def _project() -> Path:
    for folder in _upward(Path.cwd()):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    raise exits.CliError(
        f"no Pulumi.yaml in {Path.cwd()} or above it", "change to a clone of Stampworks or a project that uses it"
    )


def _upward(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.parents
