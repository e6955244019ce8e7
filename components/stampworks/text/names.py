"""Lists of names in short form, as Slurm and its users write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

UNFOLDED_MAX = 65536
"""Largest number of names, as in Slurm."""
BRACKETS_MAX = 8
"""Largest number of ranges in one name, because ranges multiply."""


def fold(names: Iterable[str], between: str = ", ") -> str:
    """Return names that differ in their last number as ranges: head, gpu-[001-003,007]. All numbers are as wide as the
    first."""
    runs = groupby(map(_split, names), key=lambda parts: (parts[0], bool(parts[1])))
    return between.join(
        _run(stem, [digits for _, digits in run]) if numbered else between.join(name for name, _ in run)
        for (stem, numbered), run in runs
    )


def _split(name: str) -> tuple[str, str]:
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]


def _run(stem: str, numbers: list[str]) -> str:
    ranges: list[list[str]] = []
    for number in numbers:
        if ranges and number == str(int(ranges[-1][-1]) + 1).zfill(len(ranges[-1][0])):
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    folded = ",".join("-".join(each) for each in ranges)
    return f"{stem}[{folded}]" if len(numbers) > 1 else f"{stem}{folded}"


def unfold(folded: str) -> tuple[str, ...]:
    """Return the names in Slurm's short form: `gpu-[001-003,007],head` has five names. Raise ValueError for too
    many."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", folded):
        if part.count("[") > BRACKETS_MAX:
            raise ValueError(f"a name with more than {BRACKETS_MAX} ranges")
        names.extend(islice(_unfold_part(part), UNFOLDED_MAX + 1))
        if len(names) > UNFOLDED_MAX:
            raise ValueError(f"a list of more than {UNFOLDED_MAX} nodes")
    return tuple(names)


def _unfold_part(part: str) -> Iterator[str]:
    prefix, bracket, rest = part.partition("[")
    inside, _, suffix = rest.partition("]")
    if not bracket:
        yield prefix
        return
    for item in inside.split(","):
        for number in _numbers(item):
            yield from (f"{prefix}{number}{tail}" for tail in _unfold_part(suffix))


def _numbers(item: str) -> Iterator[str]:
    first, dash, last = item.partition("-")
    if not dash:
        yield first
    elif _is_number(first) and _is_number(last) and 0 <= int(last) - int(first) <= UNFOLDED_MAX:
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    else:
        yield item


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
