"""Which host is which node: a pure choice from the list and the marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stampworks.clouds.hosts.marks import HostState, Mark


@dataclass(frozen=True)
class Choice:
    """The hosts of a group and what happens to them."""

    kept: dict[str, HostState]
    """Hosts that stay the nodes that they are."""
    new: dict[str, HostState]
    """Hosts that become nodes."""
    leaving: tuple[HostState, ...]
    """Hosts that are nodes and must not stay so; their jobs end first."""
    stale: tuple[HostState, ...]
    """Hosts whose name another host got in the meantime."""
    missing: tuple[str, ...]
    """Names for which there is no host."""

    @property
    def nodes(self) -> dict[str, HostState]:
        """Return the host of each node."""
        return self.kept | self.new


def choose(
    claim: str, group: str, names: Sequence[str], listed: Sequence[HostState], unlisted: Sequence[HostState]
) -> Choice:
    """Choose hosts for the names of a group.

    A host that is a node stays that node. Other names go to free hosts in the order of the list. `unlisted` are hosts
    that were in the list before.
    """
    ours = [each for each in (*listed, *unlisted) if each.mark and _is_ours(each.mark, claim, group)]
    newest: dict[str, HostState] = {}
    for each in sorted(ours, key=_commission):
        newest[_node(each)] = each
    out = {id(each) for each in unlisted}
    kept = {name: newest[name] for name in names if name in newest and id(newest[name]) not in out}
    stays = {id(each) for each in kept.values()}
    stale = tuple(each for each in ours if newest[_node(each)] is not each)
    late = {id(each) for each in stale}
    leaving = tuple(each for each in ours if id(each) not in stays and id(each) not in late)
    free = [each for each in listed if each.answers and each.mark is None]
    lacking = [name for name in names if name not in kept]
    return Choice(
        kept=kept,
        new=dict(zip(lacking, free, strict=False)),
        leaving=leaving,
        stale=stale,
        missing=tuple(lacking[len(free) :]),
    )


def _is_ours(mark: Mark, claim: str, group: str) -> bool:
    return mark.claim == claim and mark.group == group and bool(mark.node)


def _commission(state: HostState) -> str:
    return state.mark.commission if state.mark else ""


def _node(state: HostState) -> str:
    return state.mark.node if state.mark else ""
