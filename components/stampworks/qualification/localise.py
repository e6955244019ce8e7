"""Find the slow items among many in few rounds of pairs; all pairs of a round are measured at the same time.

A pair is as slow as the slower of its items and of the path between them. A fast pair clears both items. An item of a
slow pair is then paired with a cleared one; if it is slow twice, it is to blame. So two rounds find the bad items among
any number, as long as the good ones are the majority. Further rounds are for items that noise, or too many bad ones,
left in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
Round = tuple[Pair, ...]


@dataclass(frozen=True)
class Located:
    """Result of the search: slow items, undecided items, and the rounds that it took."""

    bad: tuple[str, ...]
    """Slow twice, once with an item that is known to be fast."""
    undecided: tuple[str, ...]
    """Items that are slow with all partners, none of which was fast with another item."""
    rounds: int


def localise(
    items: Sequence[str], near: Callable[[str], str] = lambda _: ""
) -> Generator[Round, Collection[Pair], Located]:
    """Yield rounds of disjoint pairs, receive the slow pairs, and return the items to blame.

    Items with the same `near` are paired first: then only the two items are in question.
    """
    cleared: list[str] = []
    bad: list[str] = []
    slow_with: dict[str, list[str]] = {item: [] for item in items}
    suspects = list(items) if len(items) > 1 else []
    rounds = 0
    while suspects:
        asked = _pairs_with_cleared(suspects, cleared, near) if cleared else _among(suspects, near, rounds)
        slow = yield asked
        rounds += 1
        for one, other in asked:
            if (one, other) in slow:
                slow_with[one].append(other)
                slow_with[other].append(one)
            else:
                cleared += [item for item in (one, other) if item not in cleared]
        # A single slow pair may be noise.
        twice = [item for item in suspects if len(slow_with[item]) > 1 and item not in cleared]
        bad += [item for item in twice if not set(cleared).isdisjoint(slow_with[item])]
        suspects = [item for item in suspects if item not in cleared and item not in bad]
        if not cleared and rounds >= min(len(items), ROUNDS_IN_THE_DARK):
            break
    return Located(tuple(bad), tuple(suspects), rounds)


ROUNDS_IN_THE_DARK = 4
"""Number of consecutive rounds with only slow pairs; after them, stop: single items do not explain the fault."""


def _among(items: Sequence[str], near: Callable[[str], str], turn: int) -> Round:
    """Pair neighbours; another turn gives each item another partner where possible."""
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(near(item) if turn == 0 else "", []).append(item)
    pairs: list[Pair] = []
    left: list[str] = []
    for members in groups.values():
        turned = members[turn % len(members) :] + members[: turn % len(members)]
        half = len(turned) // 2
        pairs += zip(turned[:half], turned[half : 2 * half], strict=True)
        left += turned[2 * half :]
    return (*pairs, *zip(left[::2], left[1::2], strict=False))


def _pairs_with_cleared(suspects: Sequence[str], cleared: Sequence[str], near: Callable[[str], str]) -> Round:
    """Pair each suspect with an item that is known to be fast, a neighbour if one is left."""
    free = list(cleared)
    pairs: list[Pair] = []
    for suspect in suspects:
        if not free:
            break
        partner = next((item for item in free if near(item) == near(suspect)), free[0])
        free.remove(partner)
        pairs.append((suspect, partner))
    return tuple(pairs)
