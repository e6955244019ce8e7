"""Draw a random sample of the project's sentences, for a reader who did not write them.

`python -m tools.sample_words --seed 2026-11-28 --count 200` prints as many docstrings as comments, messages and
sentences of pages: the same ones for the same seed and files.
"""

from __future__ import annotations

import argparse
import ast
import functools
import random
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import date

from tools.words import ROOT, comments, docstrings, python_files

KINDS = ("docstring", "comment", "message", "page")
WORDS_MIN = 3
_FOR_PROGRAMS = re.compile(r"^(type: ignore|noqa)|[\\|$;]{2}|\\|\$")
"""Marks of linters, patterns and shell scripts, which people do not read as sentences."""
Place = tuple[str, int, str]
"""File, line, text."""


@functools.cache
def texts() -> dict[str, list[Place]]:
    """Return all texts by their kind."""
    found: dict[str, list[Place]] = {kind: [] for kind in KINDS}
    for path in python_files():
        source = (ROOT / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
        kinds = {"docstring": docstrings(tree), "comment": comments(source)}
        if path.parts[0] == "components":
            kinds["message"] = _messages(tree)
        for kind, each in kinds.items():
            found[kind] += [(str(path), line, text) for line, text in each]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        found["page"] += [(str(page.relative_to(ROOT)), line, text) for line, text in _sentences(page.read_text())]
    return {kind: [each for each in places if _is_read(each[2])] for kind, places in found.items()}


def _messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the other texts of a module, with the expressions in them."""
    ours = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    ours |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in ours:
            continue
        match node:
            case ast.Constant(value=str(text)) if "\n" not in text.strip():
                yield node.lineno, text
            case ast.JoinedStr():
                parts = [each.value if isinstance(each, ast.Constant) else "{...}" for each in node.values]
                yield node.lineno, "".join(map(str, parts))


def _sentences(page: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a page, without code, tables and headings."""
    page = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), page, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.finditer(r"(?:^(?![#|<]).*\S.*\n?)+", page, re.MULTILINE):
        line = page.count("\n", 0, paragraph.start()) + 1
        for sentence in re.split(r"(?<=[.:?])\s+(?=[A-Z`\[])|\n(?=- |\d+\. )", paragraph[0]):
            yield line, sentence


def _is_read(text: str) -> bool:
    words = re.findall(r"[A-Za-z]{2,}", text)
    return len(words) >= WORDS_MIN and " " in text.strip() and not _FOR_PROGRAMS.search(text)


def sample(seed: str, count: int) -> list[tuple[str, Place]]:
    """Return `count` texts, as many of each kind as of any other."""
    chance = random.Random(seed)  # noqa: S311  # a sample, not a secret
    found = texts()
    drawn = []
    for index, kind in enumerate(KINDS):
        share = count // len(KINDS) + (index < count % len(KINDS))
        drawn += [(kind, place) for place in chance.sample(found[kind], min(share, len(found[kind])))]
    return drawn


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the sample as a numbered list."""
    parser = argparse.ArgumentParser(prog="python -m tools.sample_words", description=__doc__)
    parser.add_argument("--seed", default=date.today().isoformat(), help="any text (default: the date of today)")  # noqa: DTZ011  # a label
    parser.add_argument("--count", type=int, default=200, help="number of texts (default: 200)")
    parsed = parser.parse_args(arguments)
    for number, (kind, (file, line, text)) in enumerate(sample(parsed.seed, parsed.count), 1):
        print(f"{number}. {kind}, {file}:{line}: {' '.join(text.split())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
