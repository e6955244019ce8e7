"""`stampworks roll`: nodes that the next `up` renews, whatever their image is."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, connections, exits, stacks

if TYPE_CHECKING:
    from collections.abc import Mapping


def add_verbs(verbs: Any) -> None:
    """Add the verb `roll` and its options."""
    roll = verbs.add_parser("roll", help="have the next `pulumi up` renew nodes", allow_abbrev=False)
    stacks.add_stack_option(roll)
    roll.add_argument("nodes", metavar="NODE", nargs="+", help="names from `stampworks status`")
    why = roll.add_mutually_exclusive_group(required=True)
    why.add_argument("--reason", metavar="TEXT", help="the reason, in a few words; every user sees it")
    why.add_argument("--cancel", action="store_true", help="cancel their renewal")
    roll.add_argument("--machine", action="store_true", help="on another machine, even if the cloud could keep theirs")
    roll.add_argument("--json", action="store_true", help="print the nodes that the next `up` renews as JSON")
    roll.set_defaults(call=roll_nodes)


def roll_nodes(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when the renewal is noted for the next `up`."""
    from stampworks import configuration, operations
    from stampworks.cli.drain import login

    connections.expect_administrator("roll", arguments.stack)
    why = ""
    if not arguments.cancel:
        said = operations.said_by(login(), arguments.reason)
        why = f"{said.who} says: {said.text}"
    plan, _ = clusters.cluster_of(arguments.stack)
    operations.condemn(plan, arguments.nodes, why, arguments.machine)
    found = operations.outdated(plan, configuration.install_digest())
    print(json.dumps({"outdated": dict(found)}, indent=2) if arguments.json else _words(found, arguments.stack))
    return exits.FINE


def _words(found: Mapping[str, str], stack: str) -> str:
    from stampworks.text.names import fold
    from stampworks.text.printable import printable

    if not found:
        return "the next up renews no node"
    reasons: dict[str, list[str]] = {}
    for name, why in sorted(found.items()):
        reasons.setdefault(why, []).append(name)
    lines = [f"{fold(names)}: {printable(why)}" for why, names in reasons.items()]
    return "\n".join([*lines, f"pulumi up -s {stack} renews them when their jobs have ended"])
