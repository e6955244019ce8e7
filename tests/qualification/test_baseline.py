"""Nodes slower than their peers are found beyond noise, and noise is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.qualification import Ask, Result
from stampworks.qualification.baseline import NODES_MIN, PART_MAX, middle, slow, slow_over_time, standing
from stampworks.qualification.concluding import LOOKS

from tests.qualification.conftest import SimulatedCluster, subject
from tests.qualification.series import NOISE, SLOWED, Fleet, fleet, recorded, scaled, slowed, two_kinds, without_slowed

ALIKE = st.lists(st.floats(0.99, 1.01), min_size=NODES_MIN, max_size=64)


def named(values: list[float]) -> dict[str, float]:
    return {f"n{number}": value for number, value in enumerate(values)}


@settings(deadline=None, derandomize=True)
@given(ALIKE, st.data(), st.floats(0.05, 0.9))
def test_one_far_below_is_found_alone(values: list[float], data: st.DataObject, part: float) -> None:
    """Its peers may have any similar values."""
    number = data.draw(st.integers(0, len(values) - 1))
    values[number] *= part
    assert list(slow(named(values))) == [f"n{number}"]


@settings(deadline=None, derandomize=True)
@given(ALIKE)
def test_small_deviations_do_not_count(values: list[float]) -> None:
    """A difference of less than 3 % does not count, for any number of deviations."""
    assert slow(named(values)) == {}


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(0.01, 100), max_size=40), st.sampled_from([2.0**-10, 0.5, 4.0, 2.0**20]))
def test_units_and_order_do_not_matter(values: list[float], factor: float) -> None:
    """The same nodes are found in other units and in another order; and never more than a quarter of them."""
    found = slow(named(values))
    assert len(found) <= PART_MAX * len(values)
    assert slow({name: factor * value for name, value in named(values).items()}).keys() == found.keys()
    distinct = len(set(values)) == len(values)
    assert not distinct or slow(dict(reversed(named(values).items()))).keys() == found.keys()


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 100), max_size=NODES_MIN - 1))
def test_few_are_no_baseline(values: list[float]) -> None:
    """Three that agree may be three that are slow."""
    assert slow(named(values)) == {}


def test_nothing_is_compared_with_nothing() -> None:
    """Peers that do nothing at all are no measure."""
    assert slow(named([0.0] * 20)) == {}
    assert standing({"n1": 1.0}, "n1") is None


def test_the_words() -> None:
    """The reason has the difference, the number of peers, and the usual spread."""
    values = named([*(0.985 + 0.001 * number for number in range(31)), 0.931])
    its = standing(values, "n31")
    assert its is not None
    assert its.why == "6.9 % below the median of 31 peers, 5.8 robust deviations"
    faster = standing({**values, "n31": 1.1}, "n31")
    assert faster is not None
    assert faster.why == "10.0 % above the median of 31 peers, 8.4 robust deviations"


def test_two_at_once_are_both_found() -> None:
    """The second does not hide behind the first."""
    assert set(slow(named([0.93, 1.0, 0.995, 1.005, 0.95, 1.0, 1.01, 0.99]))) == {"n0", "n4"}


def test_the_end_of_a_long_row_is_no_outlier() -> None:
    """The same holds for a fleet of two kinds."""
    assert slow(named([1 - 0.004 * number for number in range(12)])) == {}
    assert slow(named([1.0] * 8 + [0.9] * 8)) == {}
    assert slow(named([1.0] * 9 + [0.971, 0.971, 0.969])) == {}


@pytest.mark.parametrize("make", NOISE.values(), ids=NOISE)
def test_a_slow_one_in_noise(make: Callable[[Random], Fleet]) -> None:
    """A slowdown of 5 % is found, also on two nodes, and healthy nodes are not named."""
    chance = Random(1)  # noqa: S311
    windows, right, both = 30, 0, 0
    for _ in range(windows):
        sound = make(chance)
        assert slow_over_time(sound) == {}
        bad = chance.sample(sorted(sound), 2)
        right += set(slow_over_time(slowed(sound, bad[0]))) == {bad[0]}
        both += set(slow_over_time(slowed(sound, *bad))) == set(bad)
    assert right >= windows - 1
    assert both >= windows - 3


def test_too_much_noise_names_nobody() -> None:
    """Windows with too much noise name no node, even if eight nodes look alike by chance."""
    chance = Random(1)  # noqa: S311
    made = [fleet(chance, lambda chance, _: chance.lognormvariate(0, 0.2), 8) for _ in range(100)]
    assert [slow_over_time(each) for each in made] == [{}] * 100


def test_two_kinds_of_nodes_are_no_slow_ones() -> None:
    """A fleet of two batches has no outliers."""
    chance = Random(1)  # noqa: S311
    assert [slow_over_time(two_kinds(chance)) for _ in range(30)] == [{}] * 30


@pytest.mark.parametrize(
    ("begin", "end", "part"), [(0, 30, 0.3), (100, 128, 0.92), (50, 51, 0.001)], ids=["ramping", "backup", "stall"]
)
def test_short_slowness_does_not_count(begin: int, end: int, part: float) -> None:
    """Low clocks at first, load of another user for a while, and a stall cover less than a quarter of the window."""
    made = NOISE["drifting"](Random(2))  # noqa: S311
    steps = made["n3"]
    made["n3"] = [*steps[:begin], *scaled(steps[begin:end], part), *steps[end:]]
    assert slow_over_time(made) == {}


def test_a_window_too_short_names_nobody() -> None:
    """Eight parts of a step each give no confidence."""
    assert slow_over_time({name: steps[:15] for name, steps in slowed(recorded("one_core")[0], "1").items()}) == {}


def test_recorded_series() -> None:
    """The process with 5 % more work is found in each window, and windows without it name none."""
    windows = recorded("one_core")
    assert len(windows) == 16
    assert [set(slow_over_time(window)) for window in windows] == [{SLOWED}] * 16
    assert [slow_over_time(without_slowed(window)) for window in windows] == [{}] * 16


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=100), st.data())
def test_the_middle_is_deaf_to_a_quarter(values: list[float], data: st.DataObject) -> None:
    """Any quarter of the samples leaves the middle within the others."""
    lost = data.draw(st.integers(0, len(values) // 4))
    rest = values[lost:]
    wild = data.draw(st.lists(st.floats(-1e12, 1e12), min_size=lost, max_size=lost))
    assert min(rest) - 1e-6 <= middle([*wild, *rest]) <= max(rest) + 1e-6


def cluster(values: dict[str, float], quantity: str = "matmul_fp32") -> SimulatedCluster:
    return SimulatedCluster(subject(16), says={(node, quantity): value for node, value in values.items()})


def test_enough_peers_find_what_a_fixed_part_would_not() -> None:
    """A node 5 % slow among sixteen fails with both comparisons; the floor alone, of four nodes, lets it pass."""
    [failed] = [each for each in cluster({"gpu-003": 95.0}).prove() if each.verdict != "pass"]
    why = "it multiplies at 95% of the rate of gpu-009 beside it; "
    why += "among all, 5.0 % below the median of 15 peers, 50.0 robust deviations"
    assert (failed.check, failed.nodes, failed.why) == ("matmul", ("gpu-003",), why)
    alone = SimulatedCluster(subject(4), says={("gpu-003", "matmul_fp32"): 95.0})
    assert {each.verdict for each in alone.prove()} == {"pass"}


def test_the_floor_holds_where_peers_are_far_apart() -> None:
    """Widely spread peers excuse no node below the fixed part."""
    rates = {f"gpu-{number:03}": 100.0 + 8 * (-1) ** number for number in range(1, 17)}
    failed = [each for each in cluster({**rates, "gpu-003": 80.0}).prove() if each.verdict != "pass"]
    assert [(each.check, each.nodes) for each in failed] == [("matmul", ("gpu-003",))]
    assert "robust deviations" not in failed[0].why
    assert {each.verdict for each in cluster({**rates, "gpu-003": 88.0}).prove()} == {"pass"}


def test_a_slow_disk_of_many() -> None:
    """Its rate is above the fixed limit, but below its peers'."""
    [failed] = [each for each in cluster({"gpu-003": 200.0}, "storage_write").prove() if each.verdict != "pass"]
    why = "/shared takes 200 MB/s, where that of gpu-009 takes 300; "
    why += "among all, 33.3 % below the median of 15 peers, 333.3 robust deviations"
    assert (failed.check, failed.nodes, failed.why) == ("storage", ("gpu-003",), why)


@pytest.mark.parametrize(
    ("looks", "verdict"),
    [
        pytest.param([(75, 100)] * LOOKS, "fail", id="slow each time"),
        pytest.param([(100, 100)], "pass", id="slow once, which a neighbour explains"),
        pytest.param([(75, 100), (75, 100), (100, 100)], "pass", id="as fast as the other at last"),
        pytest.param([(75, 80), *[(75, 100)] * LOOKS], "fail", id="the other held back, which says nothing"),
        pytest.param([(75, 80)] * 2 * LOOKS, "unknown", id="never a fair look"),
    ],
)
def test_a_second_look_is_beside_a_peer(looks: list[tuple[float, float]], verdict: str) -> None:
    """A slow node is slow if it is slower than a free peer each time.

    Without a free peer it is unknown, which is no pass.
    """
    heard = iter(looks)

    class Again(SimulatedCluster):
        def answers(self, program: str, asked: Ask) -> list[Result]:
            if program == "matmul" and len(asked.nodes) == 2:
                rates = dict(zip(("gpu-003", "gpu-002"), next(heard), strict=True))
                self.says = {(node, "matmul_fp32"): rate for node, rate in rates.items()}
            return super().answers(program, asked)

    found = Again(subject(4), says={("gpu-003", "matmul_fp32"): 75.0}).prove()
    assert [each.verdict for each in found if each.check == "matmul" and "gpu-003" in each.nodes] == [verdict]
    assert [each.nodes for each in found if each.verdict != "pass"] == [("gpu-003",)] * (verdict != "pass")
    if verdict == "unknown":
        why = "it was slower than its peers, and gpu-002 beside it was held back too: 6 measurements did not decide"
        assert [each.why for each in found if each.verdict == verdict] == [why]
    assert next(heard, None) is None


def test_nodes_of_another_kind_are_no_measure() -> None:
    """A pool of slower machines is healthy."""
    pools = [
        {"name": "gpu", "machine": "sim-h100", "count": 9},
        {"name": "old", "machine": "sim-a100-small", "count": 9},
    ]
    mixed = subject(0, pools=pools)
    says = {(node, "matmul_fp32"): 60.0 for node in mixed.nodes if node.startswith("old")}
    says |= {(node, "accelerators"): 2.0 for node in mixed.nodes if node.startswith("old")}
    assert {each.verdict for each in SimulatedCluster(mixed, says=says).prove() if each.check == "matmul"} == {"pass"}
