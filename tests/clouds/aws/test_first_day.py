"""The commands of docs/start/aws-first-day.md, in a clone with credentials of a simulated AWS only."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stampworks import planning
from stampworks.clouds.aws.facts import account as reading
from stampworks.declaration import load_stack

from tests.clouds.aws.simulated import Simulated
from tests.clouds.aws.test_facts import QUOTAS
from tests.docs.pages import ROOT, files, run

PAGE = ROOT / "docs" / "start" / "aws-first-day.md"
STACK = "aws-dev-g6"
(SHELL, PREPARE), COMMANDS = (
    block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S)
)
VERBS = ["facts", "lock", "facts", "plan", "rehearse", "submit"]
TIMEOUT_S = 900


@dataclass(frozen=True)
class Done:
    """A command with its output and its requests to AWS."""

    said: str
    asked: frozenset[str]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy all files that git would commit; the prepared environment of this checkout is used."""
    folder = tmp_path_factory.mktemp("clone")
    for file in files():
        if not file.is_relative_to(ROOT / "tests"):
            copy = folder / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture(scope="module")
def done(server: Simulated, clone: Path) -> Iterator[list[Done]]:
    """Run all commands as a reader would; stop at the first failure."""
    server.clear()
    for service, name, value in (*QUOTAS, ("ec2", "Running On-Demand Standard instances", 64)):
        server.quota(service, name, value)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PULUMI_", "STAMPWORKS"))}
    environment = {**kept, **server.environment, "STAMPWORKS_STATE": str(clone.parent / "state")}
    run(f"{SHELL}\n{PREPARE}", environment, TIMEOUT_S, clone)
    plan = planning.plan(load_stack(STACK, clone / "stacks"))
    for parameter in {group.launch.published_image for group in plan.groups if group.launch}:
        server.publish(parameter)
    before, found = there(server), []
    for command in COMMANDS:
        server.calls.clear()
        said = run(f"{SHELL}\n{command}", environment, TIMEOUT_S, clone)
        found.append(Done(said, frozenset(server.calls)))
    assert there(server) == before
    yield found
    server.clear()


def there(aws: Simulated) -> tuple[int, ...]:
    """Return how many instances, networks, roles and buckets the account has."""
    ec2 = aws.client("ec2")
    return (
        len(ec2.describe_instances()["Reservations"]),
        len(ec2.describe_vpcs()["Vpcs"]),
        len(aws.client("iam").list_roles()["Roles"]),
        len(aws.client("s3").list_buckets()["Buckets"]),
    )


def test_the_page_has_six_commands() -> None:
    """Each command uses the stack of the page, in this order."""
    words = [command.split() for command in COMMANDS]
    assert [each[1] for each in words] == VERBS
    assert {each[0] for each in words} == {"stampworks"}
    assert all(each[2:4] == ["-s", STACK] for each in words)
    assert (SHELL, PREPARE.split()[0]) == (". tools/env.sh", "sed")


@pytest.mark.engine
def test_each_does_with_the_account_what_it_says(done: list[Done]) -> None:
    """Facts and locks are read; other commands send no requests. None creates anything, or it would have failed
    above."""
    readable = {*reading.actions()}
    first, lock, again, *others = done
    for each in (first, again):
        assert each.asked <= readable
        assert "read only: nothing was made, changed or started there" in each.said
    assert "ec2:RunInstances" not in first.asked  # no image is locked yet
    assert {"ec2:RunInstances", "iam:SimulatePrincipalPolicy"} <= again.asked
    assert lock.asked == {"ssm:GetParameter", "ec2:DescribeImages"}
    assert "looked up in us-east-1" in lock.said
    assert [each.asked for each in others] == [frozenset()] * 3
    plan, rehearsed, submitted = (" ".join(each.said.split()) for each in others)
    assert "WARN account account 123456789012 in us-east-1, as it was on" in plan
    assert "no account was asked, nothing was created" in rehearsed
    assert "nothing was submitted, and neither a cluster nor an account was contacted" in submitted


@pytest.mark.engine
def test_each_gives_what_the_page_says(done: list[Done], clone: Path) -> None:
    """Files, rights, launches, a plan without a FAIL, a rehearsed `up`, and the script of a job."""
    _, _, facts, plan, rehearsed, submitted = (" ".join(each.said.split()) for each in done)
    for name in ("facts", "lock"):
        assert (clone / "stacks" / f"{STACK}.{name}.json").exists()
    assert re.search(r"PASS rights\.up \S+ has all \d+ rights that an `up` needs", facts)
    assert "PASS rights.launch a launch of gpu would be accepted" in facts
    assert re.search(r"PASS quota VPCs per Region in us-east-1: 1 needed; the limit is 5, and 1 are taken", facts)
    assert " FAIL " not in plan
    for phase in ("preview", "up", "up again", "destroy"):
        assert f"rehearsed: PASS {phase}" in rehearsed
    assert rehearsed.endswith("rehearsed: verdict: pass")
    assert "#SBATCH" in submitted
    assert "hostname" in submitted
