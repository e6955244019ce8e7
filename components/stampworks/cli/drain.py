"""`stampworks drain` and `stampworks return`: nodes out of service, and back."""

from __future__ import annotations

import argparse
import getpass
import os
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.plan import Plan


def add_verbs(verbs: Any) -> None:
    drain = verbs.add_parser("drain", help="take nodes out of service; their jobs go on", allow_abbrev=False)
    stacks.add_stack_option(drain)
    drain.add_argument("nodes", metavar="NODE", nargs="+", help="names from `stampworks status`")
    drain.add_argument("--reason", metavar="TEXT", required=True, help="why, in a few words; everybody sees it")
    drain.add_argument("--wait", action="store_true", help="until no job runs on them")
    drain.add_argument("--json", action="store_true", help="print the state of the nodes as JSON")
    drain.set_defaults(call=drain_nodes)
    back = verbs.add_parser("return", help="nodes take jobs again", allow_abbrev=False)
    stacks.add_stack_option(back)
    back.add_argument("nodes", metavar="NODE", nargs="+", help="names from `stampworks status`")
    back.add_argument("--force", action="store_true", help="also what the health check or an `up` holds")
    back.add_argument("--json", action="store_true", help="print the state of the nodes as JSON")
    back.set_defaults(call=return_nodes)


def drain_nodes(arguments: argparse.Namespace) -> int:
    """Fine when the nodes take no new jobs; with --wait, when none runs on them either."""
    from stampworks.cli.output import Progress
    from stampworks.operations import said_by

    reason, plan = said_by(login(), arguments.reason), stacks.plan_of(arguments.stack)
    with Progress(f"draining {len(arguments.nodes)} of the nodes of stack {arguments.stack}") as progress:
        limit_minutes = plan.scheduler.drain_timeout_minutes
        if plan.scheduler.kind == "kubernetes":
            from stampworks.operations.kubernetes import client as kubernetes
            from stampworks.operations.kubernetes import nodes as kubernetes_nodes

            kubernetes_nodes.drain(plan, arguments.nodes, reason)
            if arguments.wait:
                server = kubernetes.Server.of(plan)
                kubernetes_nodes.wait_until_free(server, arguments.nodes, limit_minutes, progress)
        else:
            from stampworks import operations

            roster = stacks.members_of(plan, arguments.stack)
            operations.drain(plan, roster, arguments.nodes, reason)
            if arguments.wait:
                operations.wait_until_free(roster, arguments.nodes, limit_minutes, progress)
    _show(plan, arguments)
    return exits.FINE


def login() -> str:
    """Who asks, also when they ask as root; nobody where this machine has no name for them."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return ""


def return_nodes(arguments: argparse.Namespace) -> int:
    """Fine when all of the nodes take jobs."""
    from stampworks.cli.output import Progress

    plan = stacks.plan_of(arguments.stack)
    with Progress(f"returning {len(arguments.nodes)} of the nodes of stack {arguments.stack}"):
        if plan.scheduler.kind == "kubernetes":
            from stampworks.operations.kubernetes import nodes as kubernetes_nodes

            kubernetes_nodes.give_back(plan, arguments.nodes, arguments.force)
        else:
            from stampworks.operations import give_back

            give_back(plan, stacks.members_of(plan, arguments.stack), arguments.nodes, arguments.force)
    return _show(plan, arguments)


def _show(plan: Plan, arguments: argparse.Namespace) -> int:
    """What has become of the nodes, as `status` shows it, and the exit code that goes with it."""
    from stampworks.cli import status

    if plan.scheduler.kind == "kubernetes":
        from stampworks.operations.kubernetes import nodes as kubernetes_nodes

        states = kubernetes_nodes.states(plan, arguments.nodes)
        status.print_kubernetes_nodes(states, arguments.json)
        return exits.FINE if all(node.ready and not node.held for node in states) else exits.NO
    from stampworks.operations import status as look

    found = look(plan, stacks.members_of(plan, arguments.stack)).nodes
    nodes = [node for node in found if node.name in arguments.nodes]
    status.print_nodes(nodes, arguments.json)
    return max(exits.OF_VERDICT[node.verdict] for node in nodes)
