"""Break the product on purpose, one place at a time, and show which suite catches it.

`python -m tools.mutations --count 30 --seed 1` chooses places across the rooms, the same ones for the same seed and
code. Each is broken in a copy of the repository. The tests that can reach it by imports run there, the nearest files
first, until one fails: those of `make check`, then of `make test`, then the long ones with `--long`.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import areas, import_graph, suites

ROOT = import_graph.ROOT
ROOMS = "components/stampworks"
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SLICE = 40
"""Test files in a run of pytest: the nearest ones finish before the next begin."""


@dataclass(frozen=True)
class Mutation:
    """An expression of a file, and its replacement."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, text: str) -> str:
        """Return a file's text with the mutation."""
        data = text.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def mutations(file: str, text: str) -> Iterator[Mutation]:
    """Yield each place of a file that can be broken: a comparison, a negation, an `and`, an `or`, a number, a flag."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    literal = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in literal or (broken := _broken(node)) is None:
            continue
        start, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        )
        yield Mutation(file, node.lineno, start, end, ast.unparse(node), f"({ast.unparse(broken)})")


def _broken(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1:
        return ast.Constant(node.value + 1)
    return None


def chosen(count: int, seed: int, root: Path = ROOT) -> list[Mutation]:
    """Choose the same number of places in each room, whatever its size."""
    draw = random.Random(seed)  # noqa: S311  (chance that can be repeated is meant)
    of_room: dict[str, list[Mutation]] = {}
    for path in sorted((root / ROOMS).rglob("*.py")):
        name = str(path.relative_to(root))
        of_room.setdefault(name.split("/")[2], []).extend(mutations(name, path.read_text(encoding="utf-8")))
    rooms = sorted(room for room, places in of_room.items() if places)
    draw.shuffle(rooms)
    return [draw.choice(of_room[rooms[number % len(rooms)]]) for number in range(count)]


def reaching(file: str) -> list[str]:
    """List the test files that import a file directly or indirectly: those of its room, then the nearest, then those of
    the verbs, which import by name."""
    paths, edges = import_graph.modules(), import_graph.graph()
    [module] = [name for name, path in paths.items() if str(path) == file]
    importers: dict[str, set[str]] = {name: set() for name in edges}
    for name, imported in edges.items():
        for each in imported:
            importers[each].add(name)
    found = import_graph.chains(importers, [module])
    room = Path(file).relative_to(ROOMS).parts[0]
    tests = [
        (not str(paths[name]).startswith(f"tests/{room}/"), len(chain), str(paths[name]))
        for name, chain in found.items()
        if paths[name].name.startswith("test_")
    ]
    nearest = [path for *_, path in sorted(tests) if not path.startswith("tests/training/")]
    others = [*(ROOT / "tests" / room).rglob("test_*.py"), *(ROOT / "tests" / "cli").rglob("test_*.py")]
    return list(dict.fromkeys([*nearest, *(str(path.relative_to(ROOT)) for path in sorted(others))]))


def copied(to: Path) -> Path:
    """Copy the repository with its index: tests of documents ask git for the files, and fail without it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    for argv in (["git", "init", "--quiet"], ["git", "add", "--all"]):
        subprocess.run(argv, cwd=to, check=True)
    (to / ".venv").symlink_to(ROOT / ".venv")
    return to


def caught(mutation: Mutation, copy: Path, long: bool, limit_s: float) -> str:
    """Return the suite and the test that catch a mutation; empty if none does."""
    file = copy / mutation.file
    before = file.read_text(encoding="utf-8")
    file.write_text(mutation.applied(before), encoding="utf-8")
    deadline = time.monotonic() + limit_s
    try:
        tests = reaching(mutation.file)
        pure = tuple(str((suites.TESTS / name).relative_to(ROOT)) for name in suites.PURE if "*" not in name)
        quick = [test for test in tests if test.startswith(pure) or test.count("/") == 1]
        for suite, marks, files in (
            ("check", suites.CHECK[-1], quick),
            ("test", suites.ORDINARY, tests),
            *([("test-long", areas.LONG, tests)] if long else []),
        ):
            for begin in range(0, len(files), SLICE):
                if test := _failed(files[begin : begin + SLICE], marks, copy, deadline - time.monotonic()):
                    return f"{suite}: {test}"
        return ""
    finally:
        file.write_text(before, encoding="utf-8")


def _failed(files: list[str], marks: str, copy: Path, limit_s: float) -> str:
    """Return the first failing test; empty if all pass or the time is up."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "components"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--hypothesis-profile=ci", "-m", marks, *files]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=max(limit_s, 1), check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode in (0, suites.NOTHING_RAN):
        return ""
    return lines[0].split(" ", 1)[1].partition(" - ")[0] if lines else "pytest does not start"


def main() -> int:
    """Apply mutations one by one, print the suite that catches each, and return 1 if any is missed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="run the long tests on those that nothing else catches")
    parser.add_argument("--limit", type=float, default=600, help="seconds for the tests of one mutation")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "copy")
        missed = 0
        for number, mutation in enumerate(chosen(asked.count, asked.seed), start=1):
            by = caught(mutation, copy, asked.long, asked.limit)
            missed += not by
            where = f"{mutation.file.removeprefix(f'{ROOMS}/')}:{mutation.line}"
            print(
                f"{number:3} {where}\n    {mutation.before} -> {mutation.after}\n    {by or 'NOT CAUGHT'}", flush=True
            )
    print(f"{missed} of {asked.count} were not caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
