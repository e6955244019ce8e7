"""`make bench`, `make bench ONLY=name`: runs benchmarks, prints a table, writes build/bench/<name>.json."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path

from bench import machine
from bench.ending import SIGNALS
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
"""Campaigns of more than an hour, which run only by name."""
INTERRUPTED = 130
"""Exit status of a program that Ctrl-C has ended, as shells report it."""
BUILD = Path(__file__).parents[1] / "build" / "bench"


def main(words: list[str]) -> int:
    """Run the named rows, or all that finish within the hour; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*NAMES, *LONG))}")
    parser.add_argument("--small", action="store_true", help="measure so little that it tells whether a row works")
    given = parser.parse_args(words)
    if unknown := [name for name in given.names if name not in (*NAMES, *LONG)]:
        print(
            f"no benchmark is called {unknown[0]!r}\n  hint: there are: {', '.join((*NAMES, *LONG))}", file=sys.stderr
        )
        return 2
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # keep the bytecode, or each preview compiles the whole SDK
    for number in SIGNALS:  # this also works where a shell ignores Ctrl-C for background commands
        signal.signal(number, signal.default_int_handler)
    failed = []
    for name in given.names or NAMES:
        print(f"{name}:", flush=True)
        try:
            show(name, rows_of(name, given.small), kept=not given.small)
        except KeyboardInterrupt:
            print("  interrupted", flush=True)
            return INTERRUPTED
        except (Exception, SystemExit) as error:  # the other rows run after any error
            failed.append(name)
            print(f"  failed: {reason(error)}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def rows_of(name: str, small: bool) -> list[Row]:
    """Measure a row with the constants of its module, or with those in its SMALL."""
    module = importlib.import_module(f"bench.{name}")
    for constant, value in (module.SMALL if small else {}).items():
        getattr(module, constant)  # raise an error for an unknown name, which would reduce nothing
        setattr(module, constant, value)
    found: list[Row] = module.rows()
    return found


def reason(error: BaseException) -> str:
    """Return an error's message below the name of its row; of an unexpected error its kind and its place, too."""
    if isinstance(error, SystemExit):
        said = str(error)
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    return said.strip().replace("\n", "\n    ")


def show(name: str, found: list[Row], kept: bool = True) -> None:
    """Print the rows with the limits of the machine, and keep them as a file."""
    rows = [*found, *machine.ceilings()]
    if kept:
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
