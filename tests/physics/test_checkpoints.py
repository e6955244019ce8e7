"""Times to write and read checkpoints."""

from __future__ import annotations

import pytest
from stampworks.catalog import UNKNOWN, Unknown
from stampworks.physics.bounds import Bound, UnknownFactError
from stampworks.physics.checkpoints import reachable

STORAGE, CLIENT = Bound(100, "as bought"), Bound(12.5, "over TCP")


@pytest.mark.parametrize(
    ("storage", "clients", "gbs", "why"),
    [
        (STORAGE, [(16, CLIENT)], 100, "as bought"),
        (STORAGE, [(2, CLIENT)], 25, "2 x 12.5 GB/s, over TCP"),
        (STORAGE, [(2, CLIENT), (1, Bound(50, "over EFA"))], 75, "2 x 12.5 GB/s, over TCP + 1 x 50 GB/s, over EFA"),
        (STORAGE, [(2, UNKNOWN)], 100, "as bought; the rate of its clients is unknown, and may be lower"),
        (STORAGE, [(2, CLIENT), (1, UNKNOWN)], 100, "as bought; the rate of its clients is unknown, and may be lower"),
        (UNKNOWN, [(2, CLIENT)], 25, "2 x 12.5 GB/s, over TCP; the rate of the storage is unknown, and may be lower"),
    ],
)
def test_the_less_of_both(
    storage: Bound | Unknown, clients: list[tuple[int, Bound | Unknown]], gbs: float, why: str
) -> None:
    """Both storage and clients limit the rate, even if the limit of one is unknown."""
    assert reachable(storage, clients) == Bound(gbs, why)


def test_nothing_is_a_limit_where_nothing_is_known() -> None:
    with pytest.raises(UnknownFactError, match="neither the rate of the storage nor that of its clients"):
        reachable(UNKNOWN, [(2, UNKNOWN)])
