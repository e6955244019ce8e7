"""`stampworks status`: who is in the cluster and what state it is in."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.operations.kubernetes.nodes import NodeState
    from stampworks.operations.kubernetes.status import KubernetesStatus
    from stampworks.operations.status import NodeStatus, Status

_HEADER = ("node", "pool", "address", "state", "jobs", "GPUs used", "rails", "held by", "reason")
_GANG = ("team", "job", "queue", "priority", "state", "pods", "nodes", "where", "why")
_IN_A_PIPE = 10_000


def add_verbs(verbs: Any) -> None:
    status = verbs.add_parser("status", help="show the nodes of a running cluster", allow_abbrev=False)
    stacks.add_stack_option(status)
    status.add_argument("--json", action="store_true", help="print the status as JSON")
    status.set_defaults(call=show_status)


def show_status(arguments: argparse.Namespace) -> int:
    """Fine when every planned node is there and takes jobs."""
    from stampworks.cli.output import Progress

    found: Status | KubernetesStatus
    with Progress(f"asking the scheduler of stack {arguments.stack}"):
        plan = stacks.plan_of(arguments.stack)
        if plan.scheduler.kind == "kubernetes":
            from stampworks.operations.kubernetes import status as kubernetes_status

            found = kubernetes_status.status(plan)
            lines = kubernetes_text(found)
        else:
            from stampworks.operations import status

            found = status(plan, stacks.members_of(plan, arguments.stack))
            lines = text(found)
    print(json.dumps(dataclasses.asdict(found), indent=2) if arguments.json else "\n".join(lines))
    return exits.OF_VERDICT[found.verdict]


def kubernetes_text(found: KubernetesStatus) -> list[str]:
    """A headline with the verdict, a line a pool, a team and a gang, and what is wrong."""
    from stampworks.operations.status import ending_sentence
    from stampworks.text.names import fold
    from stampworks.text.printable import printable

    pools = [
        (each.name, f"{each.ready} of {each.nodes}", f"{each.used} of {each.accelerators}") for each in found.pools
    ]
    teams = [(each.name, each.own, each.used, each.borrowed or "-", each.waiting or "-") for each in found.teams]
    gangs = [
        (
            *(each.team, each.name, each.queue, each.priority or "-", each.state, each.pods),
            *(fold(names) if names else "-" for names in (each.nodes, each.domains)),
            each.why or "-",
        )
        for each in found.gangs
    ]
    return [
        f"cluster {printable(found.cluster)} on {found.cloud}: {found.verdict}",
        *_lines(("pool", "nodes ready", "GPUs used"), pools),
        "",
        *_lines(("team", "own GPUs", "used", "borrowed", "jobs waiting"), teams),
        *(["", *_lines(_GANG, gangs)] if gangs else []),
        *map(printable, (*found.why, *(ending_sentence(each, datetime.now(UTC)) for each in found.endings))),
    ]


def print_nodes(nodes: Sequence[NodeStatus], as_json: bool) -> None:
    """Some nodes of a cluster, and what is the matter with them."""
    from stampworks.operations.status import sentence
    from stampworks.text.printable import printable

    if as_json:
        print(json.dumps({"nodes": [dataclasses.asdict(node) for node in nodes]}, indent=2))
    else:
        print("\n".join([*_table(nodes), *(printable(sentence(node)) for node in nodes if node.reason)]))


def print_kubernetes_nodes(nodes: Sequence[NodeState], as_json: bool) -> None:
    from stampworks.operations.status import holder

    if as_json:
        print(json.dumps({"nodes": [dataclasses.asdict(node) for node in nodes]}, indent=2))
        return
    rows = [
        (
            *(each.name, "ready" if each.ready else "not ready", ", ".join(each.runs) or "-"),
            *((holder(each.held), each.held.text) if each.held else ("-", "-")),
        )
        for each in nodes
    ]
    print("\n".join(_lines(("node", "state", "runs", "held by", "reason"), rows)))


def text(status: Status) -> list[str]:
    """A headline with the verdict, a line a node, and what is wrong."""
    from stampworks.operations.status import ending_sentence
    from stampworks.text.printable import printable

    lines = [f"cluster {printable(status.cluster)} on {status.cloud}: {status.verdict}"]
    ends = [ending_sentence(each, datetime.now(UTC)) for each in status.endings]
    return [*lines, *_table(status.nodes), *map(printable, (*status.why, *ends, *status.scheduling_only))]


def _table(nodes: Sequence[NodeStatus]) -> list[str]:
    return _lines(_HEADER, map(_cells, nodes))


def _lines(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    from stampworks.cli.output import terminal_width
    from stampworks.views.table import table

    return table(header, rows, terminal_width() if sys.stdout.isatty() else _IN_A_PIPE)


def _cells(node: NodeStatus) -> tuple[object, ...]:
    from stampworks.operations.status import holder

    jobs = ", ".join(map(str, node.jobs)) or "-"
    held = (holder(node.reason), node.reason.text) if node.reason else ("-", "-")
    return node.name, node.pool, node.address, node.state, jobs, _gpus(node), node.rails or "-", *held


def _gpus(node: NodeStatus) -> str:
    if node.gpus is None or node.gpus_allocated is None:
        return "unknown"
    return f"{node.gpus_allocated} of {node.gpus}" if node.gpus else "-"
