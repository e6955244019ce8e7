"""Hosts become nodes, and are given back."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from stampworks.clouds.hosts import keeper, marks
from stampworks.clouds.hosts.choice import Choice, choose
from stampworks.clouds.hosts.contact import ClusterAccess
from stampworks.clouds.hosts.errors import HostError
from stampworks.clouds.hosts.marks import HostState, Mark
from stampworks.clouds.hosts.shell import AT_ONCE
from stampworks.plan import Group, Host, Hosts, Plan, Release, to_dict
from stampworks.text.names import fold

Progress = Callable[[str], None]
PATIENCE_S, POLL_S = 30.0, 5.0
"""Seconds to wait for a silent host that may be a node, and between looks. Then a host of the reserve gets its name."""


def made_with(group: Group, release: Release, content: str) -> str:
    """Return a digest of the settings that a host is configured with. When it changes, nodes are outdated."""
    of = [to_dict(group.machine), to_dict(release), content]
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class WantedNodes:
    """The nodes of a group, and the hosts that they may be."""

    cluster: str
    claim: str
    group: str
    names: tuple[str, ...]
    made_with: str
    public_key: str


def look(wanted: WantedNodes, hosts: Hosts, before: Sequence[Host], progress: Progress) -> Choice:
    """Ask the hosts, and choose. A silent host is waited for while a name lacks its host."""
    listed = hosts.of_group(wanted.group)
    known = {each.id for each in listed}
    unlisted = [each for each in before if each.id not in known]
    deadline, said = time.monotonic() + PATIENCE_S, ""
    while True:
        there = marks.read(hosts, listed)
        gone = [each for each in marks.read(hosts, unlisted) if each.answers]
        chosen = choose(wanted.claim, wanted.group, wanted.names, there, gone)
        silent = [each for each in there if not each.answers]
        lacking = [*chosen.new, *chosen.missing]
        # at the first creation no silent host can be a node
        if not lacking or not silent or not (chosen.kept or chosen.leaving) or time.monotonic() > deadline:
            break
        words = f"{fold(lacking)}: waiting for {', '.join(f'{each.host.id} ({each.why})' for each in silent)}"
        if words != said:
            progress(words)
            said = words
        time.sleep(POLL_S)
    if chosen.missing:
        raise _too_few(wanted, chosen, there)
    return chosen


def _too_few(wanted: WantedNodes, chosen: Choice, there: Sequence[HostState]) -> HostError:
    lines = [f"{each.host.id}: {each.why}" for each in there if not each.answers]
    lines += [
        f"{each.host.id}: it belongs to cluster {each.mark.cluster!r}"
        for each in there
        if each.mark and each.mark.claim != wanted.claim
    ]
    lines += [
        f"{each.host.id}: it is {each.mark.condemned}"
        for each in there
        if each.mark and each.mark.claim == wanted.claim and not each.mark.node
    ]
    hint = f"repair them, or list more machines with group: {wanted.group}, and run pulumi up again"
    return HostError(
        f"group {wanted.group}",
        f"no host for {fold(chosen.missing)}",
        "\n  ".join(lines) or "the list is too short",
        hint,
    )


def give_back(hosts: Hosts, where: str, leaving: Sequence[HostState], progress: Progress) -> None:
    """Give hosts back as they were found, and name what stays on them on purpose."""
    for state in leaving:
        progress(f"{state.host.id} is given back" + (f", which was {state.mark.node}" if state.mark else ""))

    def given(state: HostState) -> str:
        try:
            found = keeper.give_back(hosts, state.host)
        except HostError as error:
            return str(error)
        for kept in found.kept:
            progress(f"{state.host.id}: {kept.what} stays: {kept.why}")
        return ""

    _each(leaving, given, where, "give back")


def commission(wanted: WantedNodes, hosts: Hosts, new: Mapping[str, HostState], progress: Progress) -> None:
    """Make nodes of free hosts, after a list of what is on them was written there."""
    for name, state in new.items():
        progress(f"{name}: {state.host.id}")
    chosen = {id(state): name for name, state in new.items()}

    def claimed(state: HostState) -> str:
        try:
            keeper.keep(hosts, state.host)
        except HostError as error:
            return str(error)
        mark = Mark(wanted.cluster, wanted.claim, wanted.group, chosen[id(state)], _now(), wanted.made_with)
        return marks.claim(hosts, state.host, mark, wanted.public_key)

    _each([*new.values()], claimed, f"group {wanted.group}", "claim")


def _each(states: Sequence[HostState], do: Callable[[HostState], str], where: str, what: str) -> None:
    """Do this on each host at once; raise one error with all failures."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = [(state, why) for state, why in zip(states, pool.map(do, states), strict=True) if why]
    if failed:
        names = fold(state.host.id for state, _ in failed)
        why = "\n  ".join(f"{state.host.id}: {why}" for state, why in failed)
        raise HostError(where, f"cannot {what} {names}", why, "run the same command again: it continues")


def recommission(access: ClusterAccess, state: HostState, made_with: str) -> None:
    """Give a node another commission, after which it counts as a new one. It is configured by the caller."""
    _rewrite(access, state, replace(_mark(state), commission=_now(), made_with=made_with, condemned=""))


def condemn(access: ClusterAccess, state: HostState, why: str) -> None:
    """Write into the mark why the node is to be renewed; nothing for a node in order."""
    _rewrite(access, state, replace(_mark(state), condemned=why))


def replace_host(access: ClusterAccess, plan: Plan, state: HostState, made_with: str, progress: Progress) -> None:
    """Give a refused host back with a mark that says so, and its name to a host of the reserve."""
    mark, hosts, where = _mark(state), access.hosts, f"cluster {plan.name}"
    free = [each for each in marks.read(hosts, hosts.of_group(mark.group)) if each.answers and each.mark is None]
    if not free:
        what = f"no host in reserve for {mark.node}"
        hint = f"list another machine with group: {mark.group}, and run pulumi up"
        raise HostError(where, what, f"{state.host.id} is {mark.condemned}", hint)
    give_back(hosts, where, [state], progress)  # first, for two machines with one name confuse the scheduler
    refused = replace(mark, node="", commission=_now())
    if why := marks.write(hosts, state.host, refused):
        raise HostError(where, f"cannot mark {state.host.id} as refused", why)
    progress(f"{mark.node}: {free[0].host.id} in the place of {state.host.id}")
    new = replace(mark, commission=_now(), made_with=made_with, condemned="")
    keeper.keep(hosts, free[0].host)
    if why := marks.claim(hosts, free[0].host, new, access.public_key):
        raise HostError(where, f"cannot claim {free[0].host.id}", why)


def _rewrite(access: ClusterAccess, state: HostState, mark: Mark) -> None:
    answer = access.ask(state.host, marks.writing(mark))
    if answer.code != 0:
        raise HostError(f"cluster {mark.cluster}", f"cannot mark {state.host.id}", answer.why)


def _mark(state: HostState) -> Mark:
    if state.mark is None:
        raise LookupError(f"{state.host.id} has no mark")
    return state.mark


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def give_back_all(hosts: Hosts, cluster: str, claim: str, progress: Progress) -> None:
    """Give back each host that has the claim. Name those that do not answer: a claim of theirs stays."""
    there = marks.read(hosts, hosts.machines)
    ours = [each for each in there if each.mark and each.mark.claim == claim]
    give_back(hosts, f"cluster {cluster}", ours, progress)
    for each in there:
        if not each.answers:
            progress(f"{each.host.id} does not answer: whatever the cluster brought stays on it ({each.why})")
