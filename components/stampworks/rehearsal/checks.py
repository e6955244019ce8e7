"""Checks of a scenario against the stack and the providers, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stampworks.declaration.errors import DeclarationError, Problem
from stampworks.declaration.loader import load_value
from stampworks.declaration.wording import did_you_mean, shown, similar
from stampworks.provider.handlers import PACKAGE
from stampworks.rehearsal.rules import rules_of
from stampworks.rehearsal.scenario import ConfigurationChange, Scenario
from stampworks.rehearsal.sdks import classes_of
from stampworks.rehearsal.servers import packages
from stampworks.rehearsal.stack import DECLARED, Stack, changed


def refuse_wrong(stack: Stack, scenario: Scenario) -> None:
    """Raise DeclarationError with all faults of the scenario, each at its line."""
    problems = [*scenario.problems, *_types(scenario), *_changes(stack, scenario)]
    if problems:
        raise DeclarationError(problems)


def _types(scenario: Scenario) -> Iterator[Problem]:
    """Yield the types that do not exist.

    For a package without a list of types, the end of the rehearsal names those that never occurred.
    """
    names, asked = [PACKAGE.name, *packages()], {token.partition(":")[0] for token, _ in scenario.types}
    known = {package: frozenset(classes_of(package)) for package in names if package in asked}  # each is a large file
    known[PACKAGE.name] = frozenset(handler.token for handler in PACKAGE.handlers)
    for token, wrong in scenario.types:
        package = token.partition(":")[0]
        if package not in names and similar(package, names):
            yield wrong(f"there is no package of the type {shown(token)}", did_you_mean(package, names))
        elif token not in (types := known.get(package, frozenset())) and types:
            near = similar(token, rules_of(package).types or types)
            hint = f"did you mean '{near}'?" if near else "the list of the first `up` has the types of the stack"
            yield wrong(f"{package} has no resource of the type {shown(token)}", hint)


def _changes(stack: Stack, scenario: Scenario) -> Iterator[Problem]:
    config = stack.config
    for change in scenario.changes:
        try:
            after = changed(stack, config, change)
        except DeclarationError as error:
            yield from error.problems
            continue
        if problems := [] if change.config else list(_declared(stack, after, change)):
            yield from problems
        else:
            config = after


def _declared(stack: Stack, config: Mapping[str, Any], change: ConfigurationChange) -> Iterator[Problem]:
    """Yield the faults in the declaration after a change. Rules are left to the stack's program."""
    try:
        problems = load_value(config[DECLARED], "", stack.folder).problems
    except DeclarationError as error:
        problems = error.problems
    yield from (change.problem(f"{each.path}: {each.message}", each.hint) for each in problems)
