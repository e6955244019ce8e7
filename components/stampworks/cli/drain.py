"""`stampworks drain` and `stampworks return`: nodes out of service, and back."""

from __future__ import annotations

import argparse
import getpass
import os
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, connections, exits, stacks

if TYPE_CHECKING:
    from stampworks.plan import Plan


def add_verbs(verbs: Any) -> None:
    """Add the verbs `drain` and `return`."""
    drain = verbs.add_parser("drain", help="take nodes out of service; their jobs continue", allow_abbrev=False)
    stacks.add_stack_option(drain)
    drain.add_argument("nodes", metavar="NODE", nargs="+", help="names from `stampworks status`")
    drain.add_argument("--reason", metavar="TEXT", required=True, help="the reason, in a few words; every user sees it")
    drain.add_argument("--wait", action="store_true", help="until no job runs on them")
    drain.add_argument("--json", action="store_true", help="print the state of the nodes as JSON")
    drain.set_defaults(call=drain_nodes)
    back = verbs.add_parser("return", help="nodes take jobs again", allow_abbrev=False)
    stacks.add_stack_option(back)
    back.add_argument("nodes", metavar="NODE", nargs="+", help="names from `stampworks status`")
    back.add_argument("--force", action="store_true", help="also nodes that the health check or an `up` holds")
    back.add_argument("--json", action="store_true", help="print the state of the nodes as JSON")
    back.set_defaults(call=return_nodes)


def drain_nodes(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when the nodes take no new jobs; with --wait, when none runs there."""
    from stampworks.cli.output import Progress
    from stampworks.operations import said_by, service_of

    connections.expect_administrator("drain", arguments.stack)
    reason, plan = said_by(login(), arguments.reason), clusters.plan_of(arguments.stack)
    with Progress(f"draining {len(arguments.nodes)} of the nodes of stack {arguments.stack}") as progress:
        service = service_of(plan, clusters.asked_of(plan, arguments.stack))
        service.drain(plan, arguments.nodes, reason)
        if arguments.wait:
            service.wait_until_free(arguments.nodes, plan.scheduler.drain_timeout_minutes, progress)
    _show(plan, arguments)
    return exits.FINE


def login() -> str:
    """Return the user's name, also under sudo; empty if this machine has none."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return ""


def return_nodes(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when all of the nodes take jobs."""
    from stampworks.cli.output import Progress
    from stampworks.operations import service_of

    connections.expect_administrator("return", arguments.stack)
    plan = clusters.plan_of(arguments.stack)
    with Progress(f"returning {len(arguments.nodes)} of the nodes of stack {arguments.stack}"):
        service = service_of(plan, clusters.asked_of(plan, arguments.stack))
        service.give_back(plan, arguments.nodes, arguments.force)
    return _show(plan, arguments)


def _show(plan: Plan, arguments: argparse.Namespace) -> int:
    """Print the nodes' new state, as `status` does, and return its exit code."""
    from stampworks.cli import status
    from stampworks.operations import nodes_of

    found = nodes_of(plan, clusters.asked_of(plan, arguments.stack), arguments.nodes)
    status.print_nodes(found, arguments.json)
    return max(exits.OF_VERDICT[verdict] for verdict in found.verdicts)
