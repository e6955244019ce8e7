"""The page about prices matches the catalog."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stampworks import planning
from stampworks.declaration import load_stack
from stampworks.planning.cost import cost

from tests.docs import prices

STACKS = Path(__file__).parents[2] / "stacks"


def test_the_coverage_of_prices_is_current() -> None:
    """docs/reference/prices.md matches the catalog; `python -m tests.docs.prices` writes it."""
    assert prices.PAGE.read_text() == prices.page(), "run: python -m tests.docs.prices"


@pytest.mark.parametrize(("machine", "said"), [("g6-8xlarge", "is {} USD an hour"), ("m7i", "which is {} USD an hour")])
def test_price_of_the_first_cluster(tmp_path: Path, machine: str, said: str) -> None:
    """docs/start/aws.md states the price that `stampworks plan` prints for the first cluster without GPUs."""
    stacks = tmp_path / "stacks"
    shutil.copytree(STACKS, stacks)
    file = stacks / "Pulumi.aws-dev-g6.yaml"
    before = file.read_text()
    assert "machine: g6-8xlarge," in before
    file.write_text(before.replace("machine: g6-8xlarge,", f"machine: {machine},"))
    hourly = cost(planning.plan(load_stack("aws-dev-g6", stacks))).usd_per_hour
    assert said.format(f"{hourly:.2f}") in " ".join((STACKS.parent / "docs" / "start" / "aws.md").read_text().split())
