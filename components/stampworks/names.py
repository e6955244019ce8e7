"""Many names in few characters, the way Slurm and its users write them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby


def fold(names: Iterable[str], between: str = ", ") -> str:
    """Names that differ in their last number as ranges: head, gpu-[001-003,007]. All are as wide as the first."""
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
