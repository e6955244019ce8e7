"""`stampworks fault`: inject faults into a cluster, to test its checks."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, connections, exits, stacks

if TYPE_CHECKING:
    from stampworks.clouds.faults import Fault, Injected

_KINDS = ("fault", "kind", "caught by", "severity", "what it does")
_NOW = ("injected", "where", "severity", "still there")
_SAID = {True: "yes", False: "no, repaired", None: "cannot tell"}


def add_verbs(verbs: Any) -> None:
    """Add the verb `fault` with its actions `list`, `inject` and `clear`."""
    fault = verbs.add_parser("fault", help="break a local cluster on purpose", allow_abbrev=False)
    stacks.add_stack_option(fault)
    actions = fault.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="list possible and injected faults", allow_abbrev=False)
    inject = actions.add_parser("inject", help="inject a fault", allow_abbrev=False)
    clear = actions.add_parser("clear", help="clear injected faults", allow_abbrev=False)
    for action, call in ((listed, _list_faults), (inject, _inject_fault), (clear, _clear_faults)):
        stacks.add_stack_option(action, default=argparse.SUPPRESS)  # keeps the option before the action
        action.add_argument("--json", action="store_true", help="print it as JSON")
        action.set_defaults(call=call)
    inject.add_argument("name", metavar="NAME", help="a fault from `stampworks fault list`")
    clear.add_argument("name", metavar="NAME", nargs="?", default="", help="this fault only (default: all)")
    inject.add_argument("--node", metavar="NODE", default="", help="where (default: chosen)")
    clear.add_argument("--node", metavar="NODE", default="", help="on this node only (default: all)")
    inject.add_argument("--rail", metavar="RAIL", default="", help="on which rail (default: chosen)")
    inject.add_argument("--severity", metavar="X", type=float, help="severity (default: chosen)")
    inject.add_argument("--seed", metavar="N", type=int, help="seed of the choice (default: random)")


def _list_faults(arguments: argparse.Namespace) -> int:
    from stampworks.operations import faults

    connections.expect_administrator("fault", arguments.stack)
    plan = clusters.plan_of(arguments.stack)
    kinds, now = faults.catalogue(plan.cloud), faults.injected(plan)
    if arguments.json:
        injected = [{**dataclasses.asdict(one), "there": there} for one, there in now]
        print(
            json.dumps(
                {"faults": [dataclasses.asdict(each) for each in kinds.values()], "injected": injected}, indent=2
            )
        )
    else:
        print("\n".join(_text(list(kinds.values()), now)))
    return exits.FINE


def _inject_fault(arguments: argparse.Namespace) -> int:
    from stampworks.cli.output import Progress
    from stampworks.operations import faults

    connections.expect_administrator("fault", arguments.stack)
    plan, roster = clusters.cluster_of(arguments.stack)
    with Progress(f"injecting {arguments.name}"):
        one, seed = faults.inject(
            plan, roster, arguments.name, arguments.node, arguments.rail, arguments.severity, arguments.seed
        )
    kind = faults.catalogue(plan.cloud)[one.fault]
    if arguments.json:
        print(json.dumps({**dataclasses.asdict(one), "check": kind.check, "seed": seed}, indent=2))
    else:
        simulated = "simulated: " if kind.simulated else ""
        print(f"{one.fault} on {one.place}{_how(kind, one)}: {simulated}{kind.does}; {kind.check} must catch it")
        print(f"the same again: --seed {seed}")
    return exits.FINE


def _clear_faults(arguments: argparse.Namespace) -> int:
    from stampworks.cli.output import Progress
    from stampworks.operations import faults

    connections.expect_administrator("fault", arguments.stack)
    plan = clusters.plan_of(arguments.stack)
    with Progress("clearing faults"):
        cleared = faults.clear(plan, arguments.name, arguments.node)
    if arguments.json:
        print(json.dumps({"cleared": [dataclasses.asdict(one) for one in cleared]}, indent=2))
    else:
        print("\n".join(f"{one.fault} on {one.place} is cleared" for one in cleared) or "there was nothing to clear")
    return exits.FINE


def _text(kinds: list[Fault], now: Any) -> list[str]:
    from stampworks.cli.output import terminal_width
    from stampworks.views.table import table

    width = terminal_width() if sys.stdout.isatty() else 200
    rows = [
        (each.name, "simulated" if each.simulated else "live", each.check, _range(each), each.does) for each in kinds
    ]
    lines = table(_KINDS, rows, width)
    injected = [
        (one.fault, one.place, "-" if one.severity is None else f"{one.severity:g}", _SAID[there]) for one, there in now
    ]
    return [*lines, "", *(table(_NOW, injected, width) if injected else ["nothing is injected"])]


def _range(fault: Fault) -> str:
    scale = fault.severity
    return f"{scale.low:g} to {scale.high:g}: {scale.what}" if scale else "-"


def _how(kind: Fault, one: Injected) -> str:
    return f" ({one.severity:g}: {kind.severity.what})" if kind.severity and one.severity is not None else ""
