"""Members of a cluster on hosts: those that its list names, that answer, and that carry its mark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from stampworks.clouds.hosts import contact
from stampworks.clouds.hosts.marks import HostState, reading, states
from stampworks.clouds.hosts.shell import jump, target
from stampworks.plan import Ending, Member, Refusal, Roster

PATIENCE_S, POLL_S = 60.0, 2.0
"""Seconds to wait for missing nodes, and between polls. A host that is restarted needs longer, and another `up`."""


def members(cluster: str, region: str) -> Roster:  # noqa: ARG001  (hosts are known by their list)
    """Return the nodes that answer."""
    known = contact.known(cluster)
    if known is None:
        return Roster(cluster, "hosts", (), "root", "", ())
    found = by_name(state for state in marked(known) if state.mark and not state.mark.condemned.startswith(REFUSED))
    return Roster(
        cluster=cluster,
        cloud="hosts",
        reach=(),
        user="root",
        identity_file=known.identity_file,
        members=tuple(_member(name, found[name]) for name in sorted(found)),
        proxy=jump(known.hosts.via, known.hosts.identity_file),
    )


REFUSED = "refused: "
"""Start of a condemnation after which another host becomes the node."""


def marked(known: contact.ClusterAccess) -> list[HostState]:
    """Return the hosts that answer to the cluster's key and carry its mark."""
    found = states(known.hosts.machines, lambda host: known.ask(host, reading()))
    return [each for each in found if each.mark and each.mark.claim == known.claim and each.mark.node]


def by_name(found: Iterable[HostState]) -> dict[str, HostState]:
    """Return the host of each node; of two with one name the one that became it last."""
    order = sorted(found, key=lambda each: each.mark.commission if each.mark else "")
    return {each.mark.node: each for each in order if each.mark}


def _member(name: str, state: HostState) -> Member:
    host = state.host
    return Member(
        name=name,
        group=state.mark.group if state.mark else host.group,
        instance=state.instance,
        address=host.inside,
        rail_addresses=tuple(each.address.partition("/")[0] for each in host.rails),
        host_key=host.host_key,
        target=target(host) if target(host) != host.inside else "",
        places=(host.rack,) if host.rack else None,
    )


def endings(cluster: str, region: str) -> tuple[Ending, ...]:  # noqa: ARG001
    """Return none: nobody said until when the machines are there."""
    return ()


def refusals(cluster: str, region: str, groups: Iterable[str]) -> tuple[Refusal, ...]:  # noqa: ARG001
    """Return none: a group without enough hosts fails when it is made."""
    return ()


def join(cluster: str, region: str, names: Mapping[str, Sequence[str]]) -> None:
    """Do nothing: hosts get their names when their group is made."""


def retag(cluster: str, region: str, wanted: Mapping[str, str], gone: Collection[str]) -> None:
    """Do nothing: hosts have no tags."""


def misplaced(cluster: str, region: str, always: Mapping[str, Sequence[str]]) -> list[str]:  # noqa: ARG001
    """Return none: nodes that leave are given back with the change of their group."""
    return []


def dismiss(cluster: str, region: str, always: Mapping[str, Sequence[str]], names: Iterable[str]) -> None:
    """Do nothing: no node is misplaced."""
