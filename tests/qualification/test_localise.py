"""The slow items among many are found exactly, in few rounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.qualification.localise import Located, Round, localise


def search(items: list[str], bad: Collection[str], leaf_nodes: int = 4) -> tuple[Located, list[Round]]:
    places = {item: str(number // leaf_nodes) for number, item in enumerate(items)}
    conversation = localise(items, places.__getitem__)
    rounds: list[Round] = []
    try:
        asked = next(conversation)
        while True:
            rounds.append(asked)
            used = [item for pair in asked for item in pair]
            assert len(used) == len(set(used)), "a node is in two pairs at once"
            asked = conversation.send([pair for pair in asked if not {*bad}.isdisjoint(pair)])
    except StopIteration as end:
        return end.value, rounds


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.data(), st.integers(3, 1024), st.integers(1, 9))
def test_one_bad_among_many(data: st.DataObject, count: int, leaf_nodes: int) -> None:
    """Exactly this item is named, within ceil(log2 n) + 1 rounds."""
    items = [f"n{number}" for number in range(count)]
    bad = data.draw(st.sampled_from(items))
    located, rounds = search(items, [bad], leaf_nodes)
    assert located.bad == (bad,)
    assert not located.undecided
    assert located.rounds == len(rounds) <= math.ceil(math.log2(count)) + 1


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.data(), st.integers(5, 1024), st.integers(1, 9))
def test_two_bad_among_many(data: st.DataObject, count: int, leaf_nodes: int) -> None:
    """Both are named within 2 ceil(log2 n) + 2 rounds, even if they were paired with each other."""
    items = [f"n{number}" for number in range(count)]
    bad = data.draw(st.lists(st.sampled_from(items), min_size=2, max_size=2, unique=True))
    located, rounds = search(items, bad, leaf_nodes)
    assert set(located.bad) == set(bad)
    assert not located.undecided
    assert len(rounds) <= 2 * math.ceil(math.log2(count)) + 2


@pytest.mark.parametrize("count", range(5, 13))
def test_two_bad_among_few(count: int) -> None:
    """Every pair is found, whatever leaves there are: in small groups the same items meet again soon."""
    items = [f"n{number}" for number in range(count)]
    for leaf_nodes in range(1, 10):
        for bad in itertools.combinations(items, 2):
            located, _ = search(items, bad, leaf_nodes)
            assert (set(located.bad), located.undecided) == (set(bad), ())


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.integers(0, 64), st.sets(st.integers(0, 63)))
def test_no_healthy_node_is_named(count: int, bad: set[int]) -> None:
    """The search ends for any number of bad nodes, and names only bad ones."""
    items = [f"n{number}" for number in range(count)]
    broken = [items[number] for number in bad if number < count]
    located, rounds = search(items, broken)
    assert set(located.bad) <= set(broken)
    assert len(rounds) <= count + 3


def test_all_well_takes_one_round() -> None:
    """An odd item is paired in the second round, with a cleared one."""
    items = [f"n{number}" for number in range(9)]
    assert search(items[:8], [])[0] == Located((), (), 1)
    assert search(items, [])[0] == Located((), (), 2)


def test_two_items_cannot_be_told_apart() -> None:
    """A slow pair has no third item that would clear one of them."""
    located, _ = search(["a", "b"], ["b"])
    assert located.bad == ()
    assert located.undecided == ("a", "b")
