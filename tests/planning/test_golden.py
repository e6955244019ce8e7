"""The plan of every stack, as data and as text.

`pytest tests/planning --regenerate` writes them again: review their difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks import planning
from stampworks.declaration import load_stack
from stampworks.plan import Plan, from_json, to_json
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
STACKS = sorted(
    file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in (ROOT / "stacks").glob("Pulumi.*.yaml")
)


def check(file: Path, text: str, regenerate: bool) -> None:
    if regenerate:
        file.write_text(text, encoding="utf-8")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture(scope="module", params=STACKS)
def plan(request: pytest.FixtureRequest, stacks: Path) -> Plan:
    return planning.plan(load_stack(request.param, stacks))


def test_plan_as_data(plan: Plan, regenerate: bool) -> None:
    """The output of `stampworks plan --json` is the reviewed file."""
    check(GOLDEN / f"{plan.name}.json", to_json(plan), regenerate)


def test_plan_as_text(plan: Plan, regenerate: bool) -> None:
    """The output of `stampworks plan` is the reviewed file."""
    findings = planning.rules(plan, planning.Facts(loopback_mbps=20_000))
    check(GOLDEN / f"{plan.name}.txt", plan_text(plan, cost(plan), findings), regenerate)


def test_a_release_has_all_that_the_nodes_of_a_stack_need(plan: Plan) -> None:
    """Examples have no unmet needs when they are planned."""
    asked = {"release.client", "release.accelerator", "release.torch", "elastic.boot"}
    assert {
        each.id: each.text for each in planning.rules(plan, None) if each.id in asked and each.verdict != "pass"
    } == {}


def test_a_plan_survives_being_written(plan: Plan) -> None:
    """A plan read back from its file is the same plan."""
    assert from_json(Plan, to_json(plan)) == plan


def test_no_golden_plan_is_left_over() -> None:
    """Each golden file belongs to a stack."""
    assert sorted(file.stem for file in GOLDEN.iterdir()) == sorted([*STACKS, *STACKS])


def test_stacks_do_not_share_a_cluster_or_its_addresses(stacks: Path) -> None:
    """All stacks of this repository can be up at once."""
    plans = [planning.plan(load_stack(stack, stacks)) for stack in STACKS]
    assert len({plan.name for plan in plans}) == len(plans) > 0
    ranges = [plan.network.cidr for plan in plans if not plan.hosts]
    assert len({*ranges}) == len(ranges)
    hosts = [each.id for plan in plans if plan.hosts for each in plan.hosts.machines]
    assert len({*hosts}) == len(hosts) > 0
