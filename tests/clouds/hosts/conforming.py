"""Answers of hosts to the conformance suite, and a running cluster on machines that are lent."""

from __future__ import annotations

from dataclasses import dataclass

from stampworks import configuration, planning
from stampworks.declaration import load_file
from stampworks.plan import Plan

from tests.cluster.lent import LentHosts
from tests.cluster.stack import Stack
from tests.rehearsed import Rehearsed


def takes_tags(_: str) -> bool:
    """Return False: nobody sends a bill by tags of machines that exist."""
    return False


def public(_: Rehearsed) -> list[str]:
    """Return nothing: nothing that is made has an address, and the hosts' own are not ours."""
    return []


@dataclass(frozen=True)
class OnHosts:
    """A cluster of two nodes on machines that are lent, of which some are in reserve."""

    stack: Stack
    lent: LentHosts

    @property
    def plan(self) -> Plan:
        return planning.plan(load_file(self.stack.file))

    @property
    def content(self) -> str:
        return configuration.install_digest()

    def kill(self, name: str) -> None:
        [host] = [host for host, node in self.lent.nodes_of().items() if node == name]
        self.lent.end(host)

    def heal(self) -> None:
        self.stack.up()
