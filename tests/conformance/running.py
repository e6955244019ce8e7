"""Running clusters of the clouds, and the events that the suite needs: a machine that dies, and the next `up`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest
from stampworks import configuration, planning
from stampworks.clouds.aws import members
from stampworks.declaration import load_file
from stampworks.plan import Plan

from tests.clouds.aws import machines
from tests.clouds.aws.booting import boot
from tests.clouds.aws.simulated import Simulated
from tests.cluster.stack import Stack

NODES = ("gpu-001", "gpu-002")
"""The nodes of the group `gpu`. A running cluster may have others, too."""


class Running(Protocol):
    """A cluster that runs, with two nodes in the group `gpu`. A test leaves it complete."""

    @property
    def plan(self) -> Plan:
        """The plan that it was made from."""

    @property
    def content(self) -> str:
        """Digest of the installation that its nodes have."""

    def kill(self, name: str) -> None:
        """End the machine of a node, as a failure does."""

    def heal(self) -> None:
        """Complete the cluster as the next `up` does."""


@dataclass(frozen=True)
class OnAws:
    """A group of instances in a simulated account, whose machines boot while somebody waits."""

    aws: Simulated
    plan: Plan
    boots: Callable[[float], None]
    content: str = machines.CONTENT

    def kill(self, name: str) -> None:
        roster = members.members(self.plan.name, self.plan.region)
        [target] = [each.target for each in roster.members if each.name == name]
        self.aws.client("ec2").stop_instances(InstanceIds=[target])

    def heal(self) -> None:
        for _ in range(2):  # the first look ends the dead machine, the second one names the new machine
            machines.join()
            self.boots(0)
        machines.join()


def on_aws(aws: Simulated, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> OnAws:
    machines.start(aws, plan)
    for number, each in enumerate(machines.ids(aws)):
        boot(each, number)
    machines.join()
    return OnAws(aws, plan, machines.Boots(aws, monkeypatch).boot)


@dataclass(frozen=True)
class Stamped:
    """A cluster that the real engine has stamped on this machine."""

    stack: Stack

    @property
    def plan(self) -> Plan:
        return planning.plan(load_file(self.stack.file))

    @property
    def content(self) -> str:
        return configuration.install_digest()

    def kill(self, name: str) -> None:
        self.stack.kill(name)

    def heal(self) -> None:
        self.stack.up()
