"""Ranks of a generation."""

from __future__ import annotations

from typing import Any

import pytest
from training.settings import Model, Settings
from training.shape import buddies, misfit, seats


def settings(**more: Any) -> Settings:
    return Settings("name", "/folder", **more)


MISFITS = [
    ({"layout": "tp", "tensor_parallel": 3}, [4], "tensor_parallel 3 must divide the model's heads: 4 / 3 = 1.33333"),
    ({"layout": "tp", "tensor_parallel": 4}, [2, 4], "tensor_parallel 4 must divide the number of ranks: 6 / 4 = 1.5"),
    (
        {"layout": "hsdp"},
        [1, 1],
        "hsdp cuts the state up within a node, and each has 1 rank: fsdp cuts it up between nodes",
    ),
    (
        {"layout": "hsdp"},
        [2, 4],
        "hsdp keeps a whole copy on each node, so that all need as many ranks; they have 2, 4",
    ),
]


@pytest.mark.parametrize(("more", "ranks", "words"), MISFITS)
def test_misfit_shows_the_arithmetic(more: dict[str, Any], ranks: list[int], words: str) -> None:
    assert misfit(settings(**more), ranks) == words


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_any_number_of_ranks_fits_what_cuts_evenly(layout: str) -> None:
    assert misfit(settings(layout=layout), [1, 2, 3]) == ""
    assert [seat.rank for seat in seats(settings(layout=layout), [1, 2, 3])] == list(range(6))


def test_placement_of_shards() -> None:
    """ddp: the same on all ranks; hsdp: the same on each node; fsdp and tp: a different part on each rank."""
    held = {
        layout: [seat.shard for seat in seats(settings(layout=layout), [2, 2])]
        for layout in ("ddp", "hsdp", "fsdp", "tp")
    }
    assert held == {"ddp": [0, 0, 0, 0], "hsdp": [0, 1, 0, 1], "fsdp": [0, 1, 2, 3], "tp": [0, 1, 2, 3]}


def test_run_continues_with_the_ranks_that_fit() -> None:
    """Tensor parallel ranks stay in groups, and copies of nodes are whole."""
    parallel = settings(layout="tp", tensor_parallel=2, model=Model(heads=4))
    assert [(seat.node, seat.local) for seat in seats(parallel, [2, 1])] == [(0, 0), (0, 1)]
    assert [(seat.node, seat.local) for seat in seats(settings(layout="hsdp"), [2, 3])] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert seats(settings(layout="tp", tensor_parallel=4), [1, 2]) == []


def test_second_copies_go_to_another_node() -> None:
    """Parts that no other node has are copied; a single node copies none."""
    assert buddies(seats(settings(), [2, 1, 1])) == {0: 1, 1: 1, 2: 2, 3: 0}
    assert buddies(seats(settings(layout="ddp"), [1, 1])) == {}
    assert buddies(seats(settings(layout="hsdp"), [2, 2])) == {}
    assert buddies(seats(settings(), [4])) == {}
