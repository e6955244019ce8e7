"""Output of Slurm's own programs about nodes and jobs, read with suspicion."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from stampworks.operations import remote
from stampworks.operations.errors import UnknownError
from stampworks.plan import Roster
from stampworks.text.names import fold, unfold
from stampworks.text.reasons import DrainReason, parsed

# Every state in which a job still holds its nodes.
HOLDING = "running,completing,configuring,suspended,signaling,stage_out,stopped"
_NAMES_MAX = 1 << 20
"""Over all jobs: a thousand that each hold a thousand nodes."""
_TEXT_MAX = 16384
"""Maximum characters of a field. Slurm writes shorter ones, and patterns would take too much time on a longer one."""
ACCOUNTED_DAYS = 7
"""Days of ended jobs that are listed, with accounting."""
_POLL_S = 0.5
ANSWER_S = 30.0
"""Seconds to wait for a node that may answer soon."""
_TIME_END = 1 << 37  # beyond, there is no such date


@dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm reports it."""

    name: str
    states: tuple[str, ...]
    """Base state first, then flags, in lower case."""
    reason: DrainReason
    """Drain reason. Slurm keeps the last one for ever: it counts only for a node that takes no jobs."""
    since: int | None
    """Time of the reason in seconds of Unix time; None if Slurm does not report it."""
    gpus: int | None
    gpus_allocated: int | None
    """Allocated GPUs; None if Slurm's answer was unreadable."""


@dataclass(frozen=True)
class SlurmJob:
    """A running job as Slurm reports it."""

    id: int
    user: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Queued:
    """A job that Slurm still knows of: it waits, runs, or ended a few minutes ago."""

    id: int
    name: str
    user: str
    queue: str
    comment: str
    states: tuple[str, ...]
    """Base state first, then flags, in lower case."""
    reason: str
    """Slurm's word for the reason to wait."""
    nodes: tuple[str, ...]
    wanted: int | None
    """Number of requested nodes."""
    started: int | None
    """Seconds of Unix time; of a job that waits, when Slurm expects it to start."""
    account: str
    submitted: int | None
    ended: int | None
    gpus: int | None
    exit_code: int | None
    array: int | None
    """The number of the array that it is a task of."""
    task: int | None
    """Index in the array; None for waiting tasks that are listed together."""
    priority: int | None = None
    """Priority: a higher one starts sooner; None if Slurm did not report it."""


def nodes(roster: Roster) -> dict[str, SlurmNode]:
    """All nodes that Slurm knows, by name."""
    found = [_node(item) for item in _ask(roster, ["scontrol", "show", "nodes", "--json"], "nodes")]
    return {node.name: node for node in found if node.name}


def jobs(roster: Roster) -> tuple[SlurmJob, ...]:
    """All jobs that hold nodes now."""
    listed = _ask(roster, ["squeue", "--json", f"--states={HOLDING}"], "jobs")
    found: list[SlurmJob] = []
    names = 0
    for item in listed:
        found.append(_job(item))
        names += len(found[-1].nodes)
        if names > _NAMES_MAX:
            raise UnknownError(f"jobs that hold more than {_NAMES_MAX} nodes", "look there: stampworks ssh head")
    return tuple(found)


def queue(roster: Roster) -> tuple[Queued, ...]:
    """All jobs that Slurm still knows of."""
    found = []
    for item in _ask(roster, ["squeue", "--json", "--states=all"], "jobs"):
        holds, states = _job(item), item.get("job_state")
        found.append(
            Queued(
                id=holds.id,
                name=_text(item.get("name")),
                user=holds.user,
                queue=_text(item.get("partition")),
                comment=_text(item.get("comment")),
                states=tuple(_text(state).lower() for state in (states if isinstance(states, list) else [states])),
                reason=_text(item.get("state_reason")),
                nodes=holds.nodes,
                wanted=_time(item.get("node_count")),
                started=_time(item.get("start_time")),
                account=_text(item.get("account")),
                submitted=_time(item.get("submit_time")),
                ended=_time(item.get("end_time")),
                gpus=_gpus_of_tres(_text(item.get("tres_alloc_str")) or _text(item.get("tres_req_str"))),
                exit_code=_exit_code(item.get("exit_code")),
                array=_time(item.get("array_job_id")),
                task=_index(item.get("array_task_id")),
                priority=_time(item.get("priority")),
            )
        )
    return tuple(found)


def accounted(roster: Roster) -> tuple[Queued, ...]:
    """The jobs of the last days that the accounting knows."""
    found = []
    argv = ["sacct", "--json", "--allusers", "--allocations", f"--starttime=now-{ACCOUNTED_DAYS}days"]
    for item in _ask(roster, argv, "jobs"):
        times, state, array = (_map(item.get(key)) for key in ("time", "state", "array"))
        holds = _job({**item, "user_name": item.get("user"), "nodes": _nodes_of(item)})
        current = state.get("current")
        found.append(
            Queued(
                id=holds.id,
                name=_text(item.get("name")),
                user=holds.user,
                queue=_text(item.get("partition")),
                comment=_text(_map(item.get("comment")).get("job")),
                states=tuple(_text(each).lower() for each in (current if isinstance(current, list) else [current])),
                reason=_text(state.get("reason")),
                nodes=holds.nodes,
                wanted=_seconds(item.get("allocation_nodes")),
                started=_seconds(times.get("start")),
                account=_text(item.get("account")),
                submitted=_seconds(times.get("submission")),
                ended=_seconds(times.get("end")),
                gpus=_gpus_listed(_map(item.get("tres")).get("allocated")),
                exit_code=_exit_code(item.get("exit_code")),
                array=_seconds(array.get("job_id")),
                task=_index(array.get("task_id")),
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class SlurmSnapshot:
    """A snapshot of Slurm's data: thousands of nodes take a while."""

    nodes: dict[str, SlurmNode]
    jobs: tuple[SlurmJob, ...]


def look(roster: Roster) -> SlurmSnapshot:
    """Return nodes and jobs. A job may have ended between the two requests."""
    return SlurmSnapshot(nodes(roster), jobs(roster))


def answered(
    roster: Roster,
    names: Collection[str],
    limit_s: float = ANSWER_S,
    waiting: Callable[[str], object] = lambda _: None,
) -> dict[str, SlurmNode]:
    """Return Slurm's view of all nodes once none of the named nodes is silent, or after the time limit.

    A node counts as silent after it registers or is returned, and after a restart of slurmctld, until slurmctld has
    heard of it.
    """
    until = time.monotonic() + limit_s
    while True:
        known = nodes(roster)
        silent = [name for name in names if name in known and "not_responding" in known[name].states]
        if not silent or time.monotonic() > until:
            return known
        waiting(f"waiting for {fold(silent)} to answer Slurm")
        time.sleep(_POLL_S)


def _ask(roster: Roster, argv: list[str], key: str) -> list[dict[str, Any]]:
    answer = remote.ask(roster, remote.head(roster).name, argv)
    try:
        items = json.loads(answer)[key]
    except (ValueError, KeyError, TypeError, RecursionError):
        items = None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnknownError(
            f"{' '.join(argv)} on the head answered something that is not its usual JSON",
            "look there: stampworks ssh head",
        )
    return items


def _node(item: dict[str, Any]) -> SlurmNode:
    states = item.get("state")
    listed = states if isinstance(states, list) else [states]
    return SlurmNode(
        name=_text(item.get("name")),
        states=tuple(_text(state).lower() for state in listed if _text(state)) or ("unknown",),
        reason=parsed(_text(item.get("reason")), _text(item.get("reason_set_by_user"))),
        since=_time(item.get("reason_changed_at")),
        gpus=gpus(item.get("gres")),
        gpus_allocated=gpus(item.get("gres_used")),
    )


def _job(item: dict[str, Any]) -> SlurmJob:
    number = item.get("job_id")
    if type(number) is not int:
        raise UnknownError("squeue listed a job without a number", "look there: stampworks ssh head")
    nodes = item.get("nodes")
    nodes = nodes if isinstance(nodes, str) else ""  # all or nothing, because some of the names would be a wrong answer
    return SlurmJob(id=number, user=_text(item.get("user_name")) or "unknown", nodes=expand(nodes))


def _text(value: object) -> str:
    return value[:_TEXT_MAX] if isinstance(value, str) else ""


def _time(value: object) -> int | None:
    """Read a number that Slurm writes as {"set": true, "number": 7}; 0 stands for never."""
    number = value.get("number") if isinstance(value, dict) and value.get("set") is True else None
    return number if type(number) is int and 0 < number < _TIME_END else None


def _index(value: object) -> int | None:
    """The index of a task, which may be 0."""
    number = value.get("number") if isinstance(value, dict) and value.get("set") is True else None
    return number if type(number) is int and 0 <= number < _TIME_END else None


def gpus(gres: object) -> int | None:
    """Return the GPUs in a gres string such as `gpu:h100:8(S:0-1),nic:2`; None for an unreadable one."""
    if not isinstance(gres, str) or len(gres) > _TEXT_MAX:
        return None
    total = 0
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):
        words = part.split(":")
        if words[0] != "gpu":
            continue
        if len(words) not in (2, 3) or not _is_number(words[-1]):
            return None
        total += int(words[-1])
    return total


def expand(hostlist: str) -> tuple[str, ...]:
    """The names in Slurm's short form, when Slurm means it."""
    if len(hostlist) > _TEXT_MAX:
        raise UnknownError(f"a list of nodes of {len(hostlist)} characters", "look there: stampworks ssh head")
    try:
        return unfold(hostlist)
    except ValueError as error:
        raise UnknownError(str(error), "look there: stampworks ssh head") from None


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: object) -> int | None:
    """Read a plain number of the accounting; 0 stands for never."""
    return value if type(value) is int and 0 < value < _TIME_END else None


def _nodes_of(item: dict[str, Any]) -> str:
    """Return the nodes of a job; the accounting has words for a job without nodes."""
    nodes = _text(item.get("nodes"))
    return "" if nodes == "None assigned" else nodes


def _gpus_of_tres(tres: str) -> int | None:
    """Return the GPUs in a text such as cpu=1,node=1,gres/gpu=2; 0 for none, None for an empty text."""
    if not tres:
        return None
    found = re.search(r"(?:^|,)gres/gpu=([0-9]{1,9})(?:,|$)", tres)
    return int(found[1]) if found else 0


def _gpus_listed(tres: object) -> int | None:
    if not isinstance(tres, list) or not tres:
        return None
    counts = [_map(each) for each in tres]
    found = next((each for each in counts if (each.get("type"), each.get("name")) == ("gres", "gpu")), {"count": 0})
    count = found.get("count")
    return count if type(count) is int and count >= 0 else None


def _exit_code(value: object) -> int | None:
    """A program's exit code, or 128 and the signal that ended it, as shells say it."""
    found = _map(value)
    number = _map(_map(found.get("signal")).get("id"))
    if number.get("set") is True and type(number.get("number")) is int and number["number"]:
        return 128 + int(number["number"])
    code = _map(found.get("return_code"))
    return int(code["number"]) if code.get("set") is True and type(code.get("number")) is int else None


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10
