"""State of a cluster whose scheduler is Slurm: the plan, the roster and Slurm's answers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from stampworks.operations.errors import OperationError
from stampworks.operations.members import endings
from stampworks.operations.slurm import client as slurm
from stampworks.operations.slurm.nodes import TAKES_JOBS
from stampworks.operations.status import NodesStatus, StatusTable, Verdict, holder
from stampworks.plan import Ending, Group, Member, Node, Plan, Roster
from stampworks.text.reasons import DrainReason

_HEADER = ("node", "pool", "address", "state", "jobs", "GPUs used", "rails", "held by", "reason")


@dataclass(frozen=True)
class NodeStatus:
    """A node in the plan, the roster and Slurm."""

    name: str
    pool: str
    address: str
    state: str
    """Slurm's words joined by +; `up` for nodes without jobs; `missing`, `not in Slurm`, `unknown`."""
    reason: DrainReason | None
    """Slurm's reason why it takes no jobs, if any."""
    since: str | None
    """Since when, like 2026-11-21T12:00:00Z."""
    jobs: tuple[int, ...]
    gpus_allocated: int | None
    gpus: int | None
    """GPUs; None if unknown."""
    rails: int
    verdict: Verdict


@dataclass(frozen=True)
class Status:
    """The state of a cluster whose scheduler is Slurm."""

    cluster: str
    cloud: str
    verdict: Verdict
    """Return pass if every planned node exists and takes jobs."""
    why: tuple[str, ...]
    """Reasons why the verdict is not pass, one sentence each."""
    nodes: tuple[NodeStatus, ...]
    scheduling_only: tuple[str, ...]
    """Nodes that are declared and intentionally absent, a sentence for each pool."""
    endings: tuple[Ending, ...] = ()
    """Ends of nodes' capacity: no part of the verdict, and a reason to save running work."""

    def tables(self) -> tuple[StatusTable, ...]:
        """Return the table of nodes."""
        return (_table(self.nodes),)


def status(plan: Plan, roster: Roster) -> Status:
    """Ask the scheduler on the head. Missing answers are unknown, never guessed."""
    # the cloud answers only users with rights in its account
    ends = endings(roster.cloud, roster.cluster, roster.region) if roster.is_administered else ()
    try:
        look = slurm.look(roster)
    except OperationError as error:
        silent, rows = str(error).splitlines()[0], [_unknown(member) for member in roster.members]
        return replace(_judged(plan, roster, silent, rows, {}), endings=ends)
    running: dict[str, list[int]] = {}
    for job in look.jobs:
        for name in job.nodes:
            running.setdefault(name, []).append(job.id)
    rows = [
        _row(plan, member, look.nodes.get(member.name), tuple(running.get(member.name, ())))
        for member in roster.members
    ]
    return replace(_judged(plan, roster, "", rows, look.nodes), endings=ends)


def nodes(plan: Plan, roster: Roster, names: Sequence[str]) -> NodesStatus:
    """Return the state of these nodes as a table with remarks."""
    found = [node for node in status(plan, roster).nodes if node.name in names]
    remarks = [sentence(node) for node in found if node.reason]
    return NodesStatus(found, [node.verdict for node in found], _table(found), remarks)


def _unknown(member: Member) -> NodeStatus:
    rails = len(member.rail_addresses)
    return NodeStatus(
        member.name, member.group, member.address, "unknown", None, None, (), None, None, rails, "unknown"
    )


def _row(plan: Plan, member: Member, node: slurm.SlurmNode | None, jobs: tuple[int, ...]) -> NodeStatus:
    row = replace(_unknown(member), jobs=jobs)
    if member.group in {group.name for group in (plan.controller, *plan.login)}:
        return replace(row, state="up", verdict="pass", gpus_allocated=0, gpus=0)
    if node is None:
        return replace(row, state="not in Slurm", verdict="fail")
    verdict = _verdict(node)
    row = replace(
        row,
        state="+".join(node.states),
        gpus_allocated=node.gpus_allocated,
        gpus=node.gpus,
        verdict=verdict,
    )
    return row if verdict == "pass" else _held(row, node)


def _held(row: NodeStatus, node: slurm.SlurmNode) -> NodeStatus:
    since = None if node.since is None else f"{datetime.fromtimestamp(node.since, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return replace(row, reason=node.reason, since=since) if node.reason.text else row


def _verdict(node: slurm.SlurmNode) -> Verdict:
    if node.states == ("unknown",):
        return "unknown"
    return "pass" if TAKES_JOBS.issuperset(node.states) else "fail"


def _judged(
    plan: Plan, roster: Roster, silent: str, rows: list[NodeStatus], known: Mapping[str, slurm.SlurmNode]
) -> Status:
    present = {row.name for row in rows}
    groups = plan.running
    rows += [
        _missing(group, node, known.get(node.name))
        for group in groups
        for node in group.nodes[: group.count_min]  # other nodes are elastic
        if node.name not in present
    ]
    order = {group.name: position for position, group in enumerate(groups)}
    rows.sort(key=lambda row: (order.get(row.pool, len(order)), row.name))
    why = [silent] if silent else []
    why += [sentence(row) for row in rows if row.verdict == "fail"]
    why += [short for group in groups if (short := _short(group, rows))]
    verdicts = {row.verdict for row in rows}
    verdict: Verdict = "fail" if why and not silent else "unknown" if silent or "unknown" in verdicts else "pass"
    imagined = [
        f"{pool.name}: {pool.count} nodes for scheduling only, which run no jobs" for pool in plan.scheduling_only
    ]
    return Status(plan.name, roster.cloud, verdict, tuple(why), tuple(rows), tuple(imagined))


def sentence(row: NodeStatus) -> str:
    """Return the state of a node: its holder, since when, and why."""
    if row.reason is None:
        return f"{row.name}: {row.state}"
    since = f" since {row.since}" if row.since else ""
    return f"{row.name}: {row.state}, held by {holder(row.reason)}{since}: {row.reason.text}"


def _missing(group: Group, node: Node, known: slurm.SlurmNode | None) -> NodeStatus:
    """Say that a drained node stays drained when it returns, which matters while it is down."""
    rails = len(node.rail_addresses)
    row = NodeStatus(node.name, group.name, node.address, "missing", None, None, (), None, None, rails, "fail")
    return _held(row, known) if known and "drain" in known.states else row


def _short(group: Group, rows: list[NodeStatus]) -> str:
    """Return a sentence about a group without planned names that has too few members; elastic nodes may be absent."""
    found = sum(row.pool == group.name for row in rows)
    return f"{group.name}: {found} of {group.counts} nodes" if found < group.count_min else ""


def _table(nodes: Sequence[NodeStatus]) -> StatusTable:
    return StatusTable(_HEADER, [_cells(node) for node in nodes])


def _cells(node: NodeStatus) -> tuple[object, ...]:
    jobs = ", ".join(map(str, node.jobs)) or "-"
    held = (holder(node.reason), node.reason.text) if node.reason else ("-", "-")
    return node.name, node.pool, node.address, node.state, jobs, _gpus(node), node.rails or "-", *held


def _gpus(node: NodeStatus) -> str:
    if node.gpus is None or node.gpus_allocated is None:
        return "unknown"
    return f"{node.gpus_allocated} of {node.gpus}" if node.gpus else "-"
