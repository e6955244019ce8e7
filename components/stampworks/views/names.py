"""Many names in few characters, the way Slurm and its users write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby


def fold(names: Iterable[str]) -> str:
    """Names that differ in their last number as ranges: gpu-[001-003,007], head."""
    parts = [_split(name) for name in names]
    runs = groupby(parts, key=lambda part: (part[0], len(part[1])))
    return ", ".join(_run(stem, [digits for _, digits in run]) for (stem, _), run in runs)


def _split(name: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)(\d*)", name)
    assert match is not None  # noqa: S101 (the pattern fits every line of text)
    return match[1], match[2]


def _run(stem: str, numbers: list[str]) -> str:
    if len(numbers) == 1:
        return stem + numbers[0]
    ranges: list[list[str]] = []
    for number in numbers:
        if ranges and int(number) == int(ranges[-1][-1]) + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return f"{stem}[{','.join('-'.join(each) for each in ranges)}]"
