"""The example stacks of AWS, rehearsed in the real engine: what would be asked of AWS, and nothing of AWS itself."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli.main import main

from tests.clouds.aws.simulated import Simulated, simulated_aws

ROOT = Path(__file__).parents[3]
STACKS = sorted(file.stem.removeprefix("Pulumi.") for file in (ROOT / "stacks").glob("Pulumi.aws-*.yaml"))
EKS = "aws-p5en-eks"
"""Of them the one whose scheduler is Kubernetes."""


@dataclass(frozen=True)
class Rehearsed:
    """What came of one stack."""

    stack: str
    found: Mapping[str, Any]
    made: tuple[Mapping[str, Any], ...]
    """What was asked of AWS to be made in the first `up`, and by changes: type, name, values."""
    objects: tuple[Mapping[str, Any], ...]
    """What a Kubernetes was given to have."""

    def phase(self, name: str) -> Mapping[str, Any]:
        return next(each for each in self.found["phases"] if each["name"] == name)

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """The values of all of one type, by the end of its name."""
        return [each["values"] for each in self.made if each["type"].endswith(f":{kind}")]

    def template(self, group: str = "gpu") -> Mapping[str, Any]:
        """What the nodes of a group start from."""
        [found] = [each for each in self.of("LaunchTemplate") if each["tags"]["stampworks:group"] == group]
        return found


Rehearse = Callable[..., Rehearsed]


@pytest.fixture(scope="session")
def rehearse(tmp_path_factory: pytest.TempPathFactory) -> Rehearse:
    """Each stack once, whatever asks for it: the engine takes its seconds."""
    if shutil.which("pulumi") is None:
        pytest.fail("no pulumi on PATH: . tools/env.sh")

    @functools.cache
    def call(stack: str, scenario: str = "") -> Rehearsed:
        folder = tmp_path_factory.mktemp(stack)
        record, out = folder / "record.jsonl", io.StringIO()
        options = ["--record", str(record), "--json"]
        if scenario:
            (folder / "scenario.yaml").write_text(scenario)
            options += ["--scenario", str(folder / "scenario.yaml")]
        with contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
            main(["rehearse", "-s", stack, *options])
        calls = [json.loads(line) for line in record.read_text().splitlines()]
        created = {
            (each["type"], each["name"]): each for each in calls if each["call"] == "Create" and not each["preview"]
        }
        made = [created[key] for key in sorted(created) if key[0].startswith("aws:")]
        objects = [each["values"] for key, each in created.items() if key[0].startswith("kubernetes:core/")]
        return Rehearsed(stack, json.loads(out.getvalue()), tuple(made), tuple(objects))

    return call


@pytest.fixture(scope="session")
def server() -> Iterator[Simulated]:
    with simulated_aws() as aws:
        yield aws


@pytest.fixture
def environment(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> Simulated:
    """The same, for what is called in this process."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    return aws


@pytest.fixture
def aws(server: Simulated) -> Simulated:
    """With nothing in it that another test has made."""
    server.clear()
    return server
