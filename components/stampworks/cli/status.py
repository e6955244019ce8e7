"""`stampworks status`: the nodes of a cluster and their state."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stampworks.cli import clusters, exits, stacks

if TYPE_CHECKING:
    from stampworks.operations.status import ClusterStatus, NodesStatus, StatusTable
    from stampworks.plan import Plan, Roster

_IN_A_PIPE = 10_000


def add_verbs(verbs: Any) -> None:
    """Add the verb `status` and its options."""
    status = verbs.add_parser("status", help="show the nodes of a running cluster", allow_abbrev=False)
    stacks.add_stack_option(status)
    status.add_argument("--json", action="store_true", help="print the status as JSON")
    status.set_defaults(call=show_status)


def show_status(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine when every planned node has joined and takes jobs."""
    from stampworks.cli.output import Progress
    from stampworks.operations import status_of
    from stampworks.text.printable import printable

    with Progress(f"asking the scheduler of stack {arguments.stack}"):
        plan = clusters.plan_of(arguments.stack)
        roster = clusters.asked_of(plan, arguments.stack)
        found = status_of(plan, roster)
    logins = _logins(plan, roster)
    if arguments.json:
        print(json.dumps({**dataclasses.asdict(found), "logins": logins}, indent=2))
    else:
        ways = [f"{user} logs in with: {command}" for user, command in logins.items()]
        print("\n".join([*text(found), *([""] if ways else []), *map(printable, ways)]))
    return exits.OF_VERDICT[found.verdict]


def _logins(plan: Plan, roster: Roster) -> dict[str, str]:
    """Return the commands of the stack's output `logins`, to a user with a connection her own."""
    from stampworks.operations.logins import login_commands

    found = login_commands(plan, roster)
    return found if roster.user in ("", "root") else {user: way for user, way in found.items() if user == roster.user}


def print_nodes(found: NodesStatus, as_json: bool) -> None:
    """Print the state of some nodes, with remarks."""
    from stampworks.text.printable import printable

    if as_json:
        print(json.dumps({"nodes": [dataclasses.asdict(node) for node in found.nodes]}, indent=2))
    else:
        print("\n".join([*_lines(found.table), *map(printable, found.remarks)]))


def text(status: ClusterStatus) -> list[str]:
    """Return a headline with the verdict, the scheduler's tables, and the problems."""
    from stampworks.operations.status import ending_sentence
    from stampworks.text.printable import printable

    headline = f"cluster {printable(status.cluster)} on {status.cloud}: {status.verdict}"
    first, *others = status.tables()
    ends = [ending_sentence(each, datetime.now(UTC)) for each in status.endings]
    return [
        headline,
        *_lines(first),
        *(line for table in others for line in ("", *_lines(table))),
        *map(printable, (*status.why, *ends, *status.scheduling_only)),
    ]


def _lines(shown: StatusTable) -> list[str]:
    from stampworks.cli.output import terminal_width
    from stampworks.views.table import table

    return table(shown.header, shown.rows, terminal_width() if sys.stdout.isatty() else _IN_A_PIPE)
