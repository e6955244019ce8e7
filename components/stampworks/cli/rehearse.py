"""`stampworks rehearse`: any stack in the real engine, without an account."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import signal
from pathlib import Path
from typing import Any

from stampworks.cli import exits, stacks


def add_verbs(verbs: Any) -> None:
    rehearse = verbs.add_parser(
        "rehearse", help="run a stack in the real engine against providers that only record", allow_abbrev=False
    )
    stacks.add_stack_option(rehearse)
    rehearse.add_argument("--scenario", metavar="FILE", help="changes, failures and delays to rehearse as well")
    rehearse.add_argument("--record", metavar="FILE", help="write every call of a provider into it, as lines of JSON")
    rehearse.add_argument("--json", action="store_true", help="print what was found as JSON")
    rehearse.set_defaults(call=rehearse_stack)


def rehearse_stack(arguments: argparse.Namespace) -> int:
    """Fine when every phase went as it must; the answer no when one did not."""
    from stampworks import rehearsal
    from stampworks.cli.output import Progress

    if arguments.stack.endswith(".json"):
        raise exits.CliError("a plan's file is no stack: a rehearsal runs a program", "name a stack of a project")
    scenario = rehearsal.Scenario()
    if arguments.scenario:
        scenario = rehearsal.load_scenario(Path(arguments.scenario))
    stack = rehearsal.read_stack(arguments.stack, stacks.project(), stacks.folder(), scenario.secrets)
    with contextlib.ExitStack() as opened:
        opened.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, exits.terminated))
        record = opened.enter_context(Path(arguments.record).open("w")) if arguments.record else None
        with Progress(f"rehearsing {stack.name}") as progress:
            found = rehearsal.rehearse(stack, scenario, progress, record)
    if arguments.json:
        whole = {"rehearsal": True, "verdict": found.verdict, **dataclasses.asdict(found)}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
    else:
        print(rehearsal.rehearsal_text(found), end="")
    return exits.OF_VERDICT[found.verdict]
