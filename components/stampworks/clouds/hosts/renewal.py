"""Renewal of nodes on hosts: a host is configured anew, or another host of the list takes its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from stampworks.clouds.errors import CloudError
from stampworks.clouds.hosts import contact, groups
from stampworks.clouds.hosts.errors import HostError
from stampworks.clouds.hosts.marks import HostState
from stampworks.clouds.hosts.members import REFUSED, by_name, marked
from stampworks.plan import Plan

Failure = CloudError


def outdated(plan: Plan, content: str) -> Mapping[str, str]:
    """Return the running nodes that are condemned, or were configured with other settings, and why."""
    wanted = _wanted(plan, content)
    return {
        name: why for name, state in _running(plan).items() if name in wanted and (why := _why(state, wanted[name]))
    }


def renew(plan: Plan, content: str, names: Collection[str], progress: Callable[[str], None]) -> None:
    """Commission these nodes anew, and the roll configures them. Another host takes the name of a refused one."""
    running, wanted = _running(plan), _wanted(plan, content)
    for name in sorted(names):
        state = running[name]
        if state.mark and state.mark.condemned.startswith(REFUSED):
            groups.replace_host(_access(plan), plan, state, wanted[name], progress)
        else:
            progress(f"{name}: {state.host.id} is configured anew")
            groups.recommission(_access(plan), state, wanted[name])


def condemn(plan: Plan, names: Collection[str], why: str, machine: bool = False) -> None:
    """Condemn nodes, with `machine` their hosts as well; without a reason, undo it."""
    running = _running(plan)
    words = f"{REFUSED}{why}" if machine and why else why
    for name in sorted(set(names) & set(running)):
        groups.condemn(_access(plan), running[name], words)


def _access(plan: Plan) -> contact.ClusterAccess:
    if (known := contact.known(plan.name)) is None:
        raise HostError(plan.name, "cannot reach its hosts", "no key of it is on this machine", "run pulumi up here")
    return known


def _running(plan: Plan) -> dict[str, HostState]:
    known = contact.known(plan.name)
    return by_name(marked(known)) if known else {}


def _wanted(plan: Plan, content: str) -> dict[str, str]:
    return {
        node.name: groups.made_with(group, plan.release, content)
        for group in plan.stamped
        for node in group.nodes[: group.count_min]
    }


def _why(state: HostState, wanted: str) -> str:
    if state.mark is None:
        return ""
    if state.mark.condemned:
        return state.mark.condemned.removeprefix(REFUSED)
    return "" if state.mark.made_with == wanted else "it was configured with other settings"
