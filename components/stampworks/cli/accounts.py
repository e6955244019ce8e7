"""Find the account of a cluster that a command line names, and read the facts about it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.clouds.contract import Cloud
    from stampworks.declaration import Problem
    from stampworks.planning import Facts


T = TypeVar("T")


class AccountUnansweredError(exits.CliError):
    """No cloud could be asked. The declaration may still be correct; the problem names its position."""

    def __init__(self, problem: Problem) -> None:
        from stampworks.declaration import DeclarationError

        super().__init__(problem.message, problem.hint, exits.UNKNOWN)
        located = DeclarationError([problem])
        self.problems, self.render = located.problems, located.render


def declared_file(arguments: argparse.Namespace) -> Path:
    """The file in which these options' cluster is declared."""
    from stampworks.declaration import stack_file

    if arguments.file:
        return Path(arguments.file)
    if arguments.stack.endswith(".json"):
        what = f"{arguments.stack} is a plan, and this command writes a file beside a declaration"
        raise exits.CliError(what, "name a stack, or the file of a declaration")
    return stack_file(arguments.stack, stacks.folder())


def asked_facts(arguments: argparse.Namespace) -> Facts:
    """Return the facts of the stack or file that these options name."""
    from stampworks.state.facts import known_facts

    is_plan = not arguments.file and arguments.stack.endswith(".json")
    return known_facts(None if is_plan else declared_file(arguments))


def asking(cloud: str, part: Callable[[Cloud], Callable[[], T] | None]) -> T:
    """Return a part of a cloud that asks it about an account, which needs the cloud's SDK."""
    from stampworks.clouds.registry import CLOUDS, needed

    try:
        return needed(part(CLOUDS[cloud]), "such part", cloud)()
    except ImportError as error:
        what = f"{cloud} needs its SDK, and {error.name} is not installed"
        raise exits.CliError(what, f"pip install 'stampworks[{cloud}]'") from None
