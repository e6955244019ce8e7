"""Rates of failures, the best interval of saves, and the remaining useful time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks import catalog
from stampworks.physics import failures
from stampworks_train.interval import BEFORE, Chooser

LLAMA = catalog.deployments()["Llama 3 405B over 54 days"]
RSC = catalog.deployments()["Meta's RSC clusters"]


@pytest.mark.parametrize(
    ("deployment", "accelerators", "blocked_s", "recovery_s", "interval_s", "goodput"),
    [
        (LLAMA, 16384, 60, 15 * 60, 1155, 0.815), (LLAMA, 16384, 0.5, 105, 105, 0.981),
        (LLAMA, 16384, 0.06, 30, 37, 0.994), (RSC, 1024, 60, 15 * 60, 1847, 0.903), (RSC, 1024, 0.5, 105, 169, 0.990),
        (LLAMA, 1024, 60, 15 * 60, 4621, 0.969),
    ],
)  # fmt: skip
def test_the_worked_table(
    deployment: catalog.Deployment,
    accelerators: int,
    blocked_s: float,
    recovery_s: float,
    interval_s: float,
    goodput: float,
) -> None:
    """Young-Daly at the rates of two deployments; the table is arithmetic of our own."""
    mtbf_s = failures.mtbf_hours(deployment, accelerators).value * 3600
    assert failures.interval_s(blocked_s, mtbf_s).value == pytest.approx(interval_s, rel=0.015)
    assert failures.goodput(blocked_s, recovery_s, mtbf_s).value == pytest.approx(goodput, abs=6e-4)


@pytest.mark.parametrize(
    ("deployment", "per_1000_node_days"), [(LLAMA, 3.79), (RSC, 23.7), (catalog.deployments()["OPT-175B"], 14.1)]
)
def test_rates_of_nodes(deployment: catalog.Deployment, per_1000_node_days: float) -> None:
    """Nodes with 8 accelerators, as figures about such clusters usually have."""
    days = failures.mtbf_hours(deployment, 8).value / 24
    assert 1000 / days == pytest.approx(per_1000_node_days, rel=5e-3)


def test_a_published_pair_of_which_one_cannot_hold_of_the_other() -> None:
    """arXiv 2410.21680v2, read 2026-11-22 in quotations: jobs of 1,024 accelerators fail every 7.9 h; 1.8 h and 0.23 h
    are projections for 16,384 and 131,072. The projections follow from 6.50 failures in 1,000 node-days; the measured
    value does not."""
    nodes = replace(RSC, accelerators=8000, failures=650, hours=100 * 24.0)
    projected = [failures.mtbf_hours(nodes, accelerators).value for accelerators in (1024, 16384, 131072)]
    assert projected == pytest.approx([28.8, 1.8, 0.225], rel=5e-3)
    assert projected[0] / failures.mtbf_hours(RSC, 1024).value == pytest.approx(3.65, rel=5e-3)


def test_the_meantime_of_the_largest_run() -> None:
    bound = failures.mtbf_hours(LLAMA, 16384)
    assert bound.value == pytest.approx(3.09, abs=5e-3)
    assert bound.why == (
        "Llama 3 405B over 54 days: 419 failures in 1296 h of 16384 accelerators, so one in 3.093 h x 16384/16384"
    )


def test_the_workloads_own_arithmetic_agrees() -> None:
    """The interval that a run chooses from observations equals the prediction for the same cost and rate."""
    chooser = Chooser(0.0)
    chooser.cost(0.5)
    chooser.failed(1000.0)
    mean = (1000 + 500 + 60 * BEFORE) / (1 + BEFORE)
    assert chooser.interval(1500.0).seconds == pytest.approx(failures.interval_s(0.5, mean).value)


@given(st.floats(0.01, 600), st.floats(1, 3600), st.floats(600, 1e6), st.floats(0.2, 5))
def test_no_other_interval_is_better(blocked_s: float, recovery_s: float, mtbf_s: float, other: float) -> None:
    best = failures.goodput(blocked_s, recovery_s, mtbf_s)
    every = other * failures.interval_s(blocked_s, mtbf_s).value
    assert failures.loss(blocked_s, recovery_s, mtbf_s, every).goodput <= best.value + 1e-12
    assert 0 <= best.value <= 1


@given(st.integers(1, 10**6))
def test_more_accelerators_fail_more_often(accelerators: int) -> None:
    least, most = failures.mtbf_range_hours(accelerators, catalog.deployments().values())
    assert least.value < most.value
    assert math.isclose(
        failures.mtbf_range_hours(2 * accelerators, catalog.deployments().values())[0].value, least.value / 2
    )


def test_nothing_takes_no_time() -> None:
    with pytest.raises(ValueError, match="is positive"):
        failures.interval_s(0, 100)
