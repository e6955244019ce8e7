"""Wait for the permanent members, and let surplus ones leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stampworks.operations.drain import LEAVES, REPLACED
from stampworks.operations.errors import OperationError
from stampworks.operations.members import cloud, elastic, members, too_few, waiting
from stampworks.operations.service import vacate_for_good
from stampworks.plan import Group, Refusal, Roster

_STARTS = "pulumi up restarts dead nodes"
_LOOKS = 2
"""Number of looks without members before a group counts as empty."""


@dataclass(frozen=True)
class WantedMembers:
    """Members of a group in the plan."""

    group: str
    names: tuple[str, ...]
    count: int
    """Number of permanent nodes, the first ones."""

    @property
    def always(self) -> tuple[str, ...]:
        """Names of the nodes that must run; the others are elastic."""
        return self.names[: self.count]

    @property
    def elastic(self) -> tuple[str, ...]:
        """Return the members that start when jobs need them."""
        return self.names[self.count :]


def wanted(group: Group) -> WantedMembers:
    """Return the members that a group should have."""
    return WantedMembers(group.name, tuple(node.name for node in group.nodes), group.count_min)


def join(of: str, cluster: str, region: str, all_: Iterable[WantedMembers]) -> None:
    """Make members of started machines, and restart dead ones where the cloud does not."""
    cloud(of).join(cluster, region, {each.group: each.always for each in all_})


def gather(
    of: str,
    cluster: str,
    region: str,
    all_: Sequence[WantedMembers],
    before: Sequence[WantedMembers],
    drain_timeout_minutes: float,
    progress: Callable[[str], None],
) -> Roster:
    """Return the members that always run, once all of them have joined. Machines that must leave do so first, after
    their jobs: nodes that no longer run always, and elastic nodes that will run always."""
    elastic = {name for each in before for name in each.elastic}
    becoming = [name for each in all_ for name in each.always if name in elastic]

    def let_go() -> None:
        _let_go(members(of, cluster, region), all_, becoming, drain_timeout_minutes, progress)

    let_go()
    return complete(of, cluster, region, all_, progress, again=let_go)


def complete(
    of: str,
    cluster: str,
    region: str,
    all_: Sequence[WantedMembers],
    progress: Callable[[str], None],
    *,
    but: Collection[str] = (),
    again: Callable[[], None] = lambda: None,
) -> Roster:
    """Return the permanent members, once all but the named ones exist.

    `again` runs before each further look. Report the cloud's refusals, and stop waiting for lasting ones.
    """
    patience_s, poll_s = cloud(of).PATIENCE_S, cloud(of).POLL_S
    asked: dict[str, Refusal] = {}
    deadline = time.monotonic() + patience_s
    while True:
        join(of, cluster, region, all_)
        now = members(of, cluster, region)
        there = {*but, *(member.name for member in now.members)}
        short = missing(all_, there)
        if not short:
            always = {name for each in all_ for name in each.always}
            return replace(now, members=tuple(each for each in now.members if each.name in always))
        refused = cloud(of).refusals(cluster, region, [each.group for each in all_ if missing([each], there)])
        # The cause of the first failure may already be repaired: another attempt shows it.
        if lasting := [each for each in refused if each.lasting and asked.setdefault(each.group, each) != each]:
            raise too_few(f"{short}, and waiting does not help", lasting)
        if time.monotonic() > deadline:
            raise too_few(f"{short} after {patience_s:.0f} s", refused, _STARTS)
        progress(waiting(short, refused))
        time.sleep(poll_s)
        again()


def end_elastic(of: str, cluster: str, region: str, group: str, progress: Callable[[str], None]) -> None:
    """End the elastic nodes of a group, and return when they have ended.

    Look again after the last one: a cloud lists a machine a moment after its start.
    """
    deadline, empty = time.monotonic() + cloud(of).PATIENCE_S, 0
    while empty < _LOOKS:
        left = elastic(of).end_elastic(cluster, region, group)
        empty = 0 if left else empty + 1
        if left and time.monotonic() > deadline:
            raise OperationError(f"{', '.join(left)} of {group} do not end", "find out why, and run the command again")
        if left:
            progress(f"waiting for {', '.join(left)} to end")
        if empty < _LOOKS:
            time.sleep(cloud(of).POLL_S)


def missing(all_: Iterable[WantedMembers], there: Iterable[str]) -> str:
    """Return the incomplete groups, in words; empty if all are complete."""
    names = {*there}
    found = [(each, len(names.intersection(each.always))) for each in all_]
    return ", ".join(
        f"{each.group}: {count} of {each.count} members" for each, count in found if count < len(each.always)
    )


def _let_go(
    now: Roster,
    all_: Sequence[WantedMembers],
    becoming: Sequence[str],
    timeout_minutes: float,
    progress: Callable[[str], None],
) -> None:
    """Return the members of the wanted groups; a removed group leaves as a whole, at the end of the same `up`.

    Nodes that become permanent take no jobs until Slurm is configured: a job would start another machine of that name.
    """
    always: Mapping[str, Sequence[str]] = {each.group: each.always for each in all_}
    names = {name for each in all_ for name in each.names}
    leaving = [*cloud(now.cloud).misplaced(now.cluster, now.region, always), *becoming]
    if reasons := {name: REPLACED if name in names else LEAVES for name in leaving}:
        from stampworks.operations.slurm.service import SlurmService  # only nodes of Slurm leave in this way

        vacate_for_good(SlurmService(now), reasons, timeout_minutes, progress)
        cloud(now.cloud).dismiss(now.cluster, now.region, always, reasons)
