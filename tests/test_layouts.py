"""Numbers of nodes that fit a layout."""

from __future__ import annotations

import pytest
from stampworks.physics.layouts import fitting, misfit


@pytest.mark.parametrize(
    ("layout", "degree", "ranks", "largest"),
    [
        *(("fsdp", 1, 1, 5), ("hsdp", 1, 8, 5), ("hsdp", 1, 1, 0), ("tp", 1, 1, 5), ("tp", 2, 1, 4), ("tp", 8, 8, 5)),
        *(("tp", 16, 8, 4), ("tp", 3, 8, 3), ("tp", 12, 8, 3), ("tp", 8, 1, 0)),
    ],
)
def test_the_largest_number_that_fits(layout: str, degree: int, ranks: int, largest: int) -> None:
    """The number fits by its own arithmetic, and no larger one does."""
    assert fitting(layout, degree, 5, ranks) == largest
    fits = [nodes for nodes in range(1, 6) if not misfit(layout, degree, nodes, ranks)]
    assert max(fits, default=0) == largest


def test_the_arithmetic_is_said() -> None:
    """The products, and the quotient that is not whole."""
    assert misfit("tp", 3, 2, 8) == (
        "2 nodes x 8 ranks = 16 ranks; in groups of tensor_parallel 16 / 3 = 5.333, which is not whole"
    )
