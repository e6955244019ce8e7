"""Find the declaration of a stack by its name."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stampworks.cli import exits

if TYPE_CHECKING:
    from stampworks.declaration import DeclarationSource
    from stampworks.plan import Plan

DEFAULT_STACK = "local"
RULES = "rules"
"""Field for findings of rules beside a plan in its file; a reader computes them again."""
PROJECT_MAX_KIB = 64
"""Limit for a Pulumi.yaml from an untrusted source. Reading YAML takes long."""


def add_stack_option(
    parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup, default: str | None = None
) -> None:
    """Add `--stack`. Its default is $STAMPWORKS_STACK, else the stack of this folder."""
    parser.add_argument(
        "-s",
        "--stack",
        metavar="STACK",
        default=default or os.environ.get("STAMPWORKS_STACK") or _stack_here(),
        help="environment: its Pulumi.STACK.yaml, or the JSON file of a plan or a connection (default: "
        f"$STAMPWORKS_STACK, else {DEFAULT_STACK})",
    )


def _stack_here() -> str:
    """Return the stack of this folder; outside of a project the user's connection, if there is one."""
    from stampworks.state.paths import connection_file

    file = connection_file()
    if file.is_file() and not any((folder / "Pulumi.yaml").is_file() for folder in _upward(Path.cwd())):
        return str(file)
    return DEFAULT_STACK


def add_user_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the option of verbs that start jobs; a connection names its user itself."""
    else_ = f", else {default}" if default else ""
    parser.add_argument(
        "--user",
        metavar="USER",
        default=os.environ.get("STAMPWORKS_USER", ""),
        help=f"as this declared user, or as root (default: $STAMPWORKS_USER{else_}; with a connection its user)",
    )


def add_plan_options(parser: argparse.ArgumentParser, more: str = "") -> argparse._MutuallyExclusiveGroup:
    """Add the options of a verb without a cluster: a stack or a file, and further choices."""
    which = parser.add_mutually_exclusive_group()
    add_stack_option(which)
    about = f"a declaration or a stack file, instead of a stack{more}"
    which.add_argument("file", metavar="FILE", nargs="?", help=about)
    return which


def asked_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan that these options name."""
    from stampworks.planning import plan

    source = asked_source(arguments)
    return plan(source) if source else _written_plan(Path(arguments.stack))


def asked_source(arguments: argparse.Namespace) -> DeclarationSource | None:
    """Return the declaration that these options name; None for a plan's file."""
    from stampworks.declaration import load_file

    if arguments.file:
        return load_file(Path(arguments.file))
    return None if arguments.stack.endswith(".json") else source_of(arguments.stack)


def source_of(stack: str) -> DeclarationSource:
    """The declaration of a stack of the project that the working directory is in."""
    from stampworks.declaration import load_stack

    return load_stack(stack, folder())


def plan_of(stack: str) -> Plan:
    """A stack's plan; a cluster that is declared in Python has no other file than the plan itself."""
    from stampworks.planning import plan

    return _written_plan(Path(stack)) if stack.endswith(".json") else plan(source_of(stack))


def _written_plan(file: Path) -> Plan:
    from stampworks.plan import Plan, from_dict

    try:
        data = json.loads(file.read_text())
        if isinstance(data, dict):
            data.pop(RULES, None)
        plan = from_dict(Plan, data)
        if [group.role for group in plan.groups].count("controller") != 1:
            raise ValueError("Plan.groups: none of them is the controller")
        _check_known(plan)
        return plan
    except (ValueError, RecursionError) as error:  # this includes text that is no JSON
        hint = "write it anew: pulumi stack output plan, or stampworks plan --json"
        raise exits.CliError(f"{file} is no plan of this release of stampworks: {error}", hint) from None


def _check_known(plan: Plan) -> None:
    """Look up the plan's names in the catalog and count its networks, so that neither fails later."""
    import ipaddress

    from stampworks import catalog
    from stampworks.declaration.values import DIRECTORY

    for group in plan.groups:
        if group.machine.name not in catalog.machines():
            raise ValueError(f"Plan.groups[{group.name!r}].machine.name: the catalog has no {group.machine.name!r}")
    for storage in plan.storage:
        if storage.kind not in (DIRECTORY, *catalog.file_systems()):
            raise ValueError(f"Plan.storage[{storage.name!r}].kind: the catalog has no {storage.kind!r}")
    for subnet in plan.network.subnets:
        try:
            ipaddress.IPv4Network(subnet.cidr)
        except ValueError as error:
            raise ValueError(f"Plan.network.subnets[{subnet.name!r}].cidr: {error}") from None


def project() -> Path:
    """Return the folder of the nearest Pulumi.yaml above the working directory. Raise CliError without one."""
    for folder in _upward(Path.cwd()):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    raise exits.CliError(
        f"no Pulumi.yaml in {Path.cwd()} or above it", "change to a clone of Stampworks or a project that uses it"
    )


def folder() -> Path:
    """Return the folder in which Pulumi looks for the files of the project's stacks."""
    top = project()
    return top / stack_folder(top / "Pulumi.yaml")[0]


def stack_folder(file: Path) -> tuple[str, int]:
    """The folder that a Pulumi.yaml names for the files of its stacks, and in which line; seen from its own."""
    import yaml

    with file.open("rb") as opened:
        content = opened.read(PROJECT_MAX_KIB * 1024 + 1)
    if len(content) > PROJECT_MAX_KIB * 1024:
        raise exits.CliError(f"{file} is larger than {PROJECT_MAX_KIB} KiB", "remove content that is not Pulumi's")
    try:
        root = yaml.compose(content, Loader=yaml.BaseLoader)  # nodes only: a tag makes no value
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else f"{file}"
        raise exits.CliError(f"{place} is not YAML", "`pulumi about` shows the error") from None
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "stackConfigDir":
            line = value.start_mark.line + 1
            if not isinstance(value, yaml.ScalarNode):
                raise exits.CliError(f"{file}:{line}: stackConfigDir is no text", "name one folder")
            return value.value or ".", line
    return ".", 0


def _upward(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.parents
