"""The bundled corpus: plain English about machine rooms, written by a grammar, page by page.

    python3 -m training.corpus FILE [--pages N]

A page is a pure function of its number, so that the corpus needs no file and no time to load. There is something to
learn at every range: words, who goes with which verb, a name that comes back all over its page, sums that come out.
With a file the same pages can be made into shards.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PAGES = 2**16
LENGTH = 2048
"""Bytes of a page in a file; elsewhere it is as long as it is asked for."""

THINGS = ("node", "switch", "cable", "fan", "disk", "rack", "rail", "clock", "job", "pump", "lamp", "door")
KINDS = ("old", "new", "quiet", "slow", "tall", "spare", "warm", "first", "last", "small")
DOES = ("hums", "waits", "fails", "turns", "sleeps", "stops", "starts", "works", "answers", "shines")
WHEN = ("in the morning", "at night", "at noon", "after the storm", "before the proof", "every day", "once a year")
HOW = ("slowly", "again", "without a sound", "as it should", "for an hour", "like all its neighbours")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
HOLDERS = (("rack", "node"), ("node", "rail"), ("leaf", "node"), ("job", "rank"), ("room", "rack"), ("box", "cable"))
Chance = Callable[[int], int]
"""A whole number below the one given."""


def page(number: int, length: int) -> bytes:
    """The beginning of that page, of exactly so many bytes."""
    drawn = random.Random(number).random  # noqa: S311 (of a generator only this method is the same in every version)

    def chance(below: int) -> int:
        return int(drawn() * below)

    name = f"{THINGS[chance(6)]}-{chance(1000):03d}"
    text = f"Of {name}.\n"
    while len(text) < length:
        text += SENTENCES[chance(len(SENTENCES))](chance, name) + (". " if chance(5) else ".\n")
    return text[:length].encode("ascii")


def _one(chance: Chance, name: str) -> str:  # noqa: ARG001 (as every sentence)
    return f"The {KINDS[chance(10)]} {THINGS[chance(12)]} {DOES[chance(10)]} {WHEN[chance(7)]}"


def _many(chance: Chance, name: str) -> str:  # noqa: ARG001
    does = DOES[chance(10)].removesuffix("s")
    return (
        f"{NUMBERS[chance(8)].capitalize()} {KINDS[chance(10)]} {_plural(THINGS[chance(12)])} {does} {WHEN[chance(7)]}"
    )


def _named(chance: Chance, name: str) -> str:
    return f"Then {name} {DOES[chance(10)]} {HOW[chance(6)]}"


def _beside(chance: Chance, name: str) -> str:
    thing = THINGS[chance(12)]
    return f"Beside {name} stands a {KINDS[chance(10)]} {thing}, and the {thing} {DOES[chance(10)]} {HOW[chance(6)]}"


def _product(chance: Chance, name: str) -> str:  # noqa: ARG001
    outer, inner = HOLDERS[chance(6)]
    first, each = 2 + chance(8), 2 + chance(8)
    many = "leaves" if outer == "leaf" else _plural(outer)
    return f"{NUMBERS[first - 2].capitalize()} {many} of {each} {_plural(inner)} have {first * each} {_plural(inner)}"


def _compared(chance: Chance, name: str) -> str:
    mine, other = 100 * (2 + chance(7)), 100 * (2 + chance(7))
    word = "more than" if mine > other else "less than" if mine < other else "as much as"
    return f"With {mine} {name} has {word} its neighbour with {other}"


def _plural(noun: str) -> str:
    if noun.endswith(("ch", "x")):
        return f"{noun}es"
    return f"{noun}s"


SENTENCES = (_one, _many, _named, _beside, _product, _compared)


def main(argv: Sequence[str]) -> int:
    """Write pages of the corpus into a file, and return the exit status."""
    parser = argparse.ArgumentParser(prog="training.corpus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument(
        "--pages", metavar="N", type=int, default=512, help=f"the first of {PAGES}, {LENGTH} bytes each"
    )
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.pages <= PAGES:
        parser.error(f"--pages: {arguments.pages} is not from 1 to {PAGES}")
    try:
        with arguments.file.open("wb") as file:
            for number in range(arguments.pages):
                file.write(page(number, LENGTH - 1) + b"\n")
    except OSError as error:
        print(f"{arguments.file}: cannot write the corpus: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
