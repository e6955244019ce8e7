"""`stampworks rehearse`: any stack in the real engine, without an account."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.rehearsal import Stack


def add_verbs(verbs: Any) -> None:
    """Add the verb `rehearse` and its options."""
    rehearse = verbs.add_parser(
        "rehearse", help="run a stack in the real engine against providers that only record calls", allow_abbrev=False
    )
    stacks.add_stack_option(rehearse)
    rehearse.add_argument("--scenario", metavar="FILE", help="changes, failures and delays to rehearse as well")
    rehearse.add_argument("--record", metavar="FILE", help="write every call of a provider into it, as lines of JSON")
    rehearse.add_argument("--json", action="store_true", help="print the findings as JSON")
    rehearse.set_defaults(call=rehearse_stack)


def rehearse_stack(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when every phase passes, NO when one fails."""
    from stampworks import rehearsal
    from stampworks.cli.output import Progress
    from stampworks.declaration import DeclarationError

    if arguments.stack.endswith(".json"):
        raise exits.CliError("a plan's file has no program, which a rehearsal runs", "name a stack of a project")
    scenario = rehearsal.Scenario()
    if arguments.scenario:
        scenario = rehearsal.load_scenario(Path(arguments.scenario))
    try:
        stack = rehearsal.read_stack(arguments.stack, stacks.project(), stacks.folder(), scenario.secrets)
    except DeclarationError as error:
        raise DeclarationError([*scenario.problems, *error.problems]) from None
    passed_over = rules_passed_over(stack, arguments.stack)
    with contextlib.ExitStack() as opened:
        opened.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, exits.terminated))
        record = opened.enter_context(Path(arguments.record).open("w")) if arguments.record else None
        with Progress(f"rehearsing {stack.name}") as progress:
            found = rehearsal.rehearse(stack, scenario, progress, record)
    found = dataclasses.replace(found, rules_passed_over=passed_over)
    if arguments.json:
        whole = {"rehearsal": True, "verdict": found.verdict, **dataclasses.asdict(found)}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
    else:
        print(rehearsal.rehearsal_text(found), end="")
    return exits.OF_VERDICT[found.verdict]


def rules_passed_over(stack: Stack, name: str) -> tuple[str, ...]:
    """Return the rules at which an `up` would stop and a rehearsal does not, because nothing boots."""
    if stack.declared is None:
        return ()
    from stampworks.declaration import stack_file
    from stampworks.planning import judged
    from stampworks.planning.rules.images import OF_LOCK, stops
    from stampworks.state.facts import known_facts, today

    facts = known_facts(stack_file(name, stack.folder))
    _, findings = judged(stacks.source_of(name), facts, today(), OF_LOCK)
    return tuple(dict.fromkeys(each.id for each in findings if stops(each)))
