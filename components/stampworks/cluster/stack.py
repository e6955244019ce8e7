"""Plan the cluster of a Pulumi stack."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import yaml

from stampworks.cluster.clouds import left_out, refusals
from stampworks.cluster.directory import SET, password_problem
from stampworks.cluster.refusal import refuse
from stampworks.declaration import Declaration, DeclarationError, DeclarationSource, load_stack, load_value, read_lock
from stampworks.plan import Extras, Plan
from stampworks.planning import judged
from stampworks.state.facts import known_facts, today

_NAMESPACE, _KEY = "stampworks", "cluster"


def plan_of_stack(directory: Path) -> Plan:
    """Return the plan of this stack's declaration.

    If it is invalid, end the program, so that nothing is created. The directory contains the stack file and its bases:
    every problem names the user's own line.
    """
    try:
        # Name files in problems relative to the directory of the `pulumi` call.
        directory = directory.absolute()
        with contextlib.chdir(pulumi.runtime.get_root_directory()):
            made = _judged(_source(directory), directory / f"Pulumi.{pulumi.get_stack()}.yaml")
    except DeclarationError as error:
        refuse(str(error))
    return replace(made, extras=_from_here(made.extras, directory))


def plan_of_declaration(declaration: Declaration, origin: str) -> Plan:
    """Return the plan of a program's declaration, with the same errors; they have a path in place of a line."""
    try:
        return _judged(load_value(declaration, origin))
    except DeclarationError as error:
        refuse(str(error))


def _from_here(extras: Extras, directory: Path) -> Extras:
    """Return roles and checks with paths relative to the program's folder, in which the plugin runs, too."""
    here = Path.cwd()
    return Extras(
        tuple(replace(one, path=os.path.relpath(directory / one.path, here)) for one in extras.roles),
        tuple(replace(one, path=os.path.relpath(directory / one.path, here)) for one in extras.checks),
    )


def _judged(source: DeclarationSource, declared: Path | None = None) -> Plan:
    """DeclarationError with all problems that prevent the cluster, each at its field."""
    made, findings = judged(source, known_facts(declared), today(), left_out())
    if found := refusals(made, findings):
        raise DeclarationError([source.problem(*each) for each in found])
    if problem := password_problem(made):
        raise DeclarationError([source.problem("directory.bind", problem, SET)])
    return made


def _source(directory: Path) -> DeclarationSource:
    stack = pulumi.get_stack()
    value = pulumi.Config(_NAMESPACE).get_object(_KEY)
    if value is None or value == _written(directory / f"Pulumi.{stack}.yaml"):
        return load_stack(stack, directory)
    # The configuration was set in another way, for instance by the Automation API: it counts, but has no lines.
    lock = read_lock(directory / f"Pulumi.{stack}.yaml")
    return load_value(value, f"{_NAMESPACE}:{_KEY} of stack {stack}", directory, lock)


def _written(file: Path) -> Any:
    """Return the content of the stack's file, or None when nothing in it could be compared."""
    try:
        content = yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (either is safe)
        return content["config"][f"{_NAMESPACE}:{_KEY}"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
