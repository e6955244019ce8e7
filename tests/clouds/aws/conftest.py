"""The example stacks of AWS, rehearsed in the real engine: it records the requests, and AWS is not contacted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.clouds.aws import renewal
from stampworks.plan import Plan

from tests.clouds.aws import booting, machines
from tests.clouds.aws.simulated import Simulated, simulated_aws
from tests.rehearsed import ROOT, Rehearse, Rehearsed

__all__ = ["ROOT", "Rehearse", "Rehearsed"]
STACKS = sorted(file.stem.removeprefix("Pulumi.") for file in (ROOT / "stacks").glob("Pulumi.aws-*.yaml"))
EKS = "aws-p5en-eks"
"""The stack whose scheduler is Kubernetes."""
QUICK = "aws-p6-b200-block"
"""The stack with the fewest changes to rehearse."""
REHEARSED = {name: name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in STACKS}
"""The stacks as parameters: one in every run, the others in the long campaign."""
CHANGES = Path(__file__).parent / "changes"
"""Changes of each stack while it is rehearsed: at least one of each policy."""


@pytest.fixture(scope="session")
def server() -> Iterator[Simulated]:
    with simulated_aws() as aws:
        yield aws


@pytest.fixture
def environment(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> Simulated:
    """Set the same environment for calls in this process."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    return aws


@pytest.fixture
def aws(server: Simulated) -> Simulated:
    """Return an empty simulated AWS."""
    server.clear()
    return server


@pytest.fixture
def groups(environment: Simulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Let groups reach their size after each scenario, and check that nothing else remains."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(renewal, "_POLL_S", 0.01)
    booting.nothing_has_booted()
    machines.ALONE.clear()
    environment.client("ssm").put_parameter(Name="/stampworks/c/identity", Value="PRIVATE\n", Type="SecureString")
    yield
    environment.mend()
    found = environment.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    counted = {group["AutoScalingGroupName"]: [one["InstanceId"] for one in group["Instances"]] for group in found}
    paid = set(machines.ids(environment))
    assert {name: len(paid & {*of}) for name, of in counted.items()} == {
        group["AutoScalingGroupName"]: group["DesiredCapacity"] for group in found
    }
    assert paid - {id_ for of in counted.values() for id_ in of} == machines.ALONE


@pytest.fixture
def plan() -> Plan:
    return machines.planned()
