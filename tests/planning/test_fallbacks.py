"""Other ways to buy nodes that start with the work, in the order in which they are tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stampworks import catalog
from stampworks.plan import fingerprint
from stampworks.planning.cost import least_and_most

from tests.planning.test_elastic import charge, elastic, planned, refusal, review

LADDER = [
    {"purchase": "on-demand"},
    {"purchase": "block", "reservation": "cr-2"},
    {"purchase": "spot"},
]


def test_order_of_fallbacks() -> None:
    """The declared order counts; only purchases on demand can ask for placement close to others."""
    [pool] = elastic(purchase="reserved", reservation="cr-1", fallbacks=LADDER).pools
    assert [(each.name, each.placed_together) for each in pool.offers] == [
        ("reserved cr-1", False),
        ("on-demand", True),
        ("block cr-2", False),
        ("spot", True),
    ]
    assert [node.name for node in pool.elastic_nodes] == [f"gpu-{number:03d}" for number in range(5, 17)]
    assert [each.placed_together for each in planned({"machine": "m7i", "count_min": 0}).pools[0].offers] == [False]


@pytest.mark.parametrize(
    ("fallbacks", "said"),
    [
        (
            [{"purchase": "spot"}, {"purchase": "on-demand"}],
            "pools[0].fallbacks[1]: this repeats another way to buy the nodes\n"
            "  hint: take it out: the pool itself is bought so",
        ),
        (
            [{"purchase": "spot"}, {"purchase": "spot"}],
            "pools[0].fallbacks[1]: this repeats another way to buy the nodes\n"
            "  hint: take it out: fallbacks[0] is bought so",
        ),
        (
            [{"purchase": "block"}],
            "pools[0].fallbacks[0]: the pool buys block capacity and names no reservation\n"
            "  hint: write its reservation, as the cloud calls it",
        ),
        (
            [{"purchase": "spot", "reservation": "cr-1"}],
            "pools[0].fallbacks[0].reservation: purchase: spot uses no reservation\n"
            "  hint: write purchase: reserved or block, or take the reservation out",
        ),
        (
            [{"purchase": "owned"}],
            "pools[0].fallbacks[0].purchase: must be on-demand, spot, reserved or block, not 'owned'",
        ),
    ],
)
def test_fall_backs_that_are_none(fallbacks: list[dict[str, str]], said: str) -> None:
    """Each problem names the fallback and has a hint."""
    assert said in refusal({"count_min": 0, "fallbacks": fallbacks})


@pytest.mark.parametrize("pool", [{}, {"count_min": 16}])
def test_fall_backs_are_for_elastic_nodes(pool: dict[str, int]) -> None:
    """Permanent nodes are the cloud's group, which waits for its own purchase."""
    assert refusal({**pool, "fallbacks": [{"purchase": "spot"}]}).startswith(
        "test: pools[0].fallbacks: they are for nodes that start with the work, and all nodes of this pool always run\n"
        "  hint: write how many of them always run, as count_min: 0, or take them out"
    )


def test_fall_backs_where_nothing_starts_nodes() -> None:
    """The problem is about the cloud; a purchase that the cloud lacks is no valid fallback."""
    machine = next(each for each in catalog.machines().values() if each.cloud == "azure").name
    pool = {"machine": machine, "count_min": 0, "fallbacks": [{"purchase": "spot"}]}
    said = refusal(pool, cloud="azure", region="eastus")
    assert "pools[0].fallbacks: nodes cannot be started on demand of jobs on azure yet\n  hint: take them out" in said


def test_cost_of_fallbacks() -> None:
    """Reservations cost besides; how much that was, and the price of spot, is unknown."""
    assert charge(elastic(fallbacks=[{"purchase": "block", "reservation": "cr-2"}])) == (None, None)
    assert charge(elastic(fallbacks=[{"purchase": "spot"}])) == charge(elastic(purchase="spot")) == (None, None)
    least, most = charge(elastic(purchase="block", reservation="cr-1", fallbacks=[{"purchase": "on-demand"}]))
    assert least == charge(elastic(purchase="block", reservation="cr-1"))[0]
    assert (most or 0) - (least or 0) == pytest.approx((charge(elastic())[1] or 0) * 12 / 16)


@pytest.mark.parametrize(
    ("purchase", "others", "usd"),
    [
        ("on-demand", (), (4, 16)),
        ("on-demand", (0.5,), (4, 16)),
        ("spot", (2.5, 2), (4, 34)),
        ("block", (), (16, 16)),
        ("block", (2.5,), (16, 46)),
    ],
)
def test_the_least_and_the_most(purchase: Any, others: tuple[float, ...], usd: tuple[float, float]) -> None:
    """With 4 to 16 nodes at 1 USD, the most expensive purchase counts."""
    assert least_and_most(replace(elastic().pools[0], purchase=purchase), 1, *others) == usd


def test_another_fall_back_is_read_by_its_name() -> None:
    """The order counts, too."""
    one, other = elastic(fallbacks=[{"purchase": "spot"}]), elastic(fallbacks=LADDER[1:])
    [change] = review(one, other).changes
    assert (change.written, change.policy) == ("pools[gpu].fallbacks[block cr-2]", "in place")
    [change] = review(other, elastic(fallbacks=LADDER[:0:-1])).changes
    assert change.written == "pools[gpu].fallbacks"
    assert fingerprint(other) != fingerprint(elastic(fallbacks=LADDER[:0:-1]))
