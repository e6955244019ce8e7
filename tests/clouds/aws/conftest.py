"""The example stacks of AWS, rehearsed in the real engine: it records the requests, and AWS is not contacted."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli.main import main
from stampworks.clouds.aws import renewal
from stampworks.plan import Plan
from stampworks.rehearsal.engine import Engine

from tests.clouds.aws import booting, machines
from tests.clouds.aws.simulated import Simulated, simulated_aws

ROOT = Path(__file__).parents[3]
STACKS = sorted(file.stem.removeprefix("Pulumi.") for file in (ROOT / "stacks").glob("Pulumi.aws-*.yaml"))
EKS = "aws-p5en-eks"
"""The stack whose scheduler is Kubernetes."""
QUICK = "aws-p6-b200-block"
"""The stack with the fewest changes to rehearse."""
REHEARSED = [name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in STACKS]
"""The stacks as parameters: a single one in every run, the others in the long campaign."""
CHANGES = Path(__file__).parent / "changes"
"""Changes of each stack while it is rehearsed: at least one of each policy."""


@dataclass(frozen=True)
class Rehearsed:
    """Result of one stack."""

    stack: str
    found: Mapping[str, Any]
    made: tuple[Mapping[str, Any], ...]
    """Resources that the first `up` asked AWS for: type, name, values."""
    added: tuple[Mapping[str, Any], ...]
    """Resources that changes made in addition, or again."""
    updated: tuple[Mapping[str, Any], ...]
    """Updates of existing resources, change by change."""
    objects: tuple[Mapping[str, Any], ...]
    """Objects that Kubernetes was given, by the first `up` or by a change."""
    state: str
    """State after the first `up`, as the engine wrote it."""

    def phase(self, name: str) -> Mapping[str, Any]:
        return next(each for each in self.found["phases"] if each["name"] == name)

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the values of all resources of a type, named by its end."""
        return [each["values"] for each in self.made if each["type"].endswith(f":{kind}")]

    def updates(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the resources of one type after each of their updates."""
        return [each["values"] for each in self.updated if each["type"].endswith(f":{kind}")]

    def with_changes(self) -> Rehearsed:
        """Return the same values after all changes."""
        added = {(each["type"], each["name"]) for each in self.added}
        kept = [each for each in self.made if (each["type"], each["name"]) not in added]
        return replace(self, made=(*kept, *self.added))

    def template(self, group: str = "gpu") -> Mapping[str, Any]:
        """Return the template of a group's nodes."""
        [found] = [each for each in self.of("LaunchTemplate") if each["tags"]["stampworks:group"] == group]
        return found


Rehearse = Callable[..., Rehearsed]


@pytest.fixture(scope="session")
def rehearse(tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Rehearse each stack once for all tests that ask for it, with its own or other changes: the engine takes
    seconds."""
    if shutil.which("pulumi") is None:
        pytest.fail("no pulumi on PATH: . tools/env.sh")

    @functools.cache
    def call(stack: str, scenario: str = "") -> Rehearsed:
        folder = tmp_path_factory.mktemp(stack)
        record, out, file = folder / "record.jsonl", io.StringIO(), CHANGES / f"{stack}.yaml"
        if scenario:
            file = folder / "scenario.yaml"
            file.write_text(scenario)
        options = ["--record", str(record), "--json", "--scenario", str(file)]
        with _states() as states, contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
            main(["rehearse", "-s", stack, *options])
        found = json.loads(out.getvalue())
        up = next(each for each in found["phases"] if each["name"] == "up")
        first = {(each["type"], each["name"]) for each in up["steps"]}
        made: dict[tuple[str, str], Any] = {}
        added: dict[tuple[str, str], Any] = {}
        updated: list[Any] = []
        for each in map(json.loads, record.read_text().splitlines()):
            if each["call"] == "Update" and not each["preview"]:
                updated.append(each)
            if each["call"] == "Create" and not each["preview"]:
                key = each["type"], each["name"]
                (made if key in first and key not in made else added)[key] = each
        objects = [each["values"] for key, each in (made | added).items() if key[0].startswith("kubernetes:core/")]
        return Rehearsed(stack, found, _of_aws(made), _of_aws(added), tuple(updated), tuple(objects), states[0])

    return call


def _of_aws(calls: Mapping[tuple[str, str], Any]) -> tuple[Mapping[str, Any], ...]:
    return tuple(calls[key] for key in sorted(calls) if key[0].startswith("aws:"))


@contextlib.contextmanager
def _states() -> Iterator[list[str]]:
    """Yield the contents of the backend, each time that a rehearsal asks for it."""
    asked, aside = list[str](), Engine.aside

    def kept(self: Engine, *words: str) -> str:
        said = aside(self, *words)
        if words == ("stack", "export"):
            asked.append(said)
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "aside", kept)
        yield asked


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
