"""`stampworks status`: who is in the cluster and what state it is in."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.operations.status import NodeStatus, Status

_CODES = {"pass": exits.FINE, "fail": exits.NO, "unknown": exits.UNKNOWN}
_HEADER = ("node", "pool", "address", "state", "jobs", "GPUs used", "rails", "reason")
_IN_A_PIPE = 10_000


def add_verbs(verbs: Any) -> None:
    status = verbs.add_parser("status", help="show the nodes of a running cluster", allow_abbrev=False)
    stacks.add_stack_option(status)
    status.add_argument("--json", action="store_true", help="print the status as JSON")
    status.set_defaults(call=show_status)


def show_status(arguments: argparse.Namespace) -> int:
    """Fine when every planned node is there and takes jobs."""
    from stampworks.cli.output import Progress, terminal_width
    from stampworks.operations import status

    with Progress(f"asking the scheduler of stack {arguments.stack}"):
        found = status(*stacks.cluster_of(arguments.stack))
    if arguments.json:
        print(json.dumps(dataclasses.asdict(found), indent=2, ensure_ascii=False))
    else:
        print("\n".join(text(found, terminal_width() if sys.stdout.isatty() else _IN_A_PIPE)))
    return _CODES[found.verdict]


def text(status: Status, width: int) -> list[str]:
    """A headline with the verdict, a line a node, and what is wrong."""
    from stampworks.views.table import clean, table

    lines = [f"cluster {clean(status.cluster)} on {status.cloud}: {status.verdict}"]
    lines += table(_HEADER, [_cells(node) for node in status.nodes], width)
    return lines + [f"{clean(sentence)}" for sentence in status.why]


def _cells(node: NodeStatus) -> tuple[object, ...]:
    jobs = ", ".join(map(str, node.jobs)) or "-"
    reason = node.reason if node.verdict != "pass" else ""  # Slurm keeps the last one for ever
    return node.name, node.pool, node.address, node.state, jobs, _gpus(node), node.rails or "-", reason or "-"


def _gpus(node: NodeStatus) -> str:
    if node.gpus is None or node.gpus_allocated is None:
        return "unknown"
    return f"{node.gpus_allocated} of {node.gpus}" if node.gpus else "-"
