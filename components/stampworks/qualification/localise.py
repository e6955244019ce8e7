"""Which of many is slow: found in few rounds of pairs, all pairs of a round at the same time.

A pair is as slow as the slower of its two, and of what lies between them. One that is as fast as it should be clears
both; one of a slow pair is then paired with somebody who is cleared, and slow twice is to blame. So the bad ones of any
number of nodes are known after two rounds, as long as the good ones are the majority; each further round is for those
whom noise, or too many bad ones, left in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
Round = tuple[Pair, ...]


@dataclass(frozen=True)
class Located:
    bad: tuple[str, ...]
    """Slow twice, and with somebody who is known to be fast."""
    undecided: tuple[str, ...]
    """Slow with everybody they were paired with, none of whom was fast with anybody else."""
    rounds: int


def localise(
    items: Sequence[str], near: Callable[[str], str] = lambda _: ""
) -> Generator[Round, Collection[Pair], Located]:
    """Yields rounds of disjoint pairs, is sent those pairs that were slow, and returns who is to blame.

    Items of the same `near` are paired with each other first: nothing but the two is then in question.
    """
    cleared: list[str] = []
    bad: list[str] = []
    slow_with: dict[str, list[str]] = {item: [] for item in items}
    suspects = list(items) if len(items) > 1 else []
    rounds = 0
    while suspects:
        asked = _with_cleared(suspects, cleared, near) if cleared else _among(suspects, near, rounds)
        slow = yield asked
        rounds += 1
        for one, other in asked:
            if (one, other) in slow:
                slow_with[one].append(other)
                slow_with[other].append(one)
            else:
                cleared += [item for item in (one, other) if item not in cleared]
        # once may be noise
        twice = [item for item in suspects if len(slow_with[item]) > 1 and item not in cleared]
        bad += [item for item in twice if not set(cleared).isdisjoint(slow_with[item])]
        suspects = [item for item in suspects if item not in cleared and item not in bad]
        if not cleared and rounds >= min(len(items), ROUNDS_IN_THE_DARK):
            break
    return Located(tuple(bad), tuple(suspects), rounds)


ROUNDS_IN_THE_DARK = 3
"""How often everybody is paired anew while every pair is slow: then it is not some of them."""


def _among(items: Sequence[str], near: Callable[[str], str], turn: int) -> Round:
    """Pairs of neighbours; another turn gives each another partner where there is one."""
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


def _with_cleared(suspects: Sequence[str], cleared: Sequence[str], near: Callable[[str], str]) -> Round:
    """Each suspect with somebody who is known to be fast, a neighbour if there is one left."""
    free = list(cleared)
    pairs: list[Pair] = []
    for suspect in suspects:
        if not free:
            break
        partner = next((item for item in free if near(item) == near(suspect)), free[0])
        free.remove(partner)
        pairs.append((suspect, partner))
    return tuple(pairs)
