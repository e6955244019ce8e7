"""`make bench`, `make bench ONLY=name`: runs benchmarks, prints a table, writes build/bench/<name>.json."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path

from bench import machine
from bench.rows import Row

NAMES = (
    "plan",
    "review",
    "preview",
    "unchanged",
    "up",
    "scale",
    "ansible",
    "memory",
    "kubernetes",
    "fabric",
    "levels",
    "prove",
    "demo",
    "checkpoint",
    "interval",
    "recovery",
)
LONG = ("campaign",)
"""These take more than an hour, and run by their names alone."""
BUILD = Path(__file__).parents[1] / "build" / "bench"


def main(only: list[str]) -> int:
    if unknown := [name for name in only if name not in (*NAMES, *LONG)]:
        print(
            f"no benchmark is called {unknown[0]!r}\n  hint: there are: {', '.join((*NAMES, *LONG))}", file=sys.stderr
        )
        return 2
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody compiles a whole SDK at each preview
    for name in only or NAMES:
        print(f"{name}:", flush=True)
        show(name, importlib.import_module(f"bench.{name}").rows())
    return 0


def show(name: str, found: list[Row]) -> None:
    """Prints the rows, and what the machine can do at most, and keeps them as a file."""
    rows = [*found, *machine.ceilings()]
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / f"{name}.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2) + "\n")
    print("\n".join(table(rows)), flush=True)


def table(rows: list[Row]) -> list[str]:
    """The rows under a header, in columns."""
    lines: list[tuple[str, ...]] = [("what", "ours", "baseline", "unit", "ratio", "low", "high", "target", "met")]
    lines += [tuple(_cell(value) for value in dataclasses.astuple(row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
