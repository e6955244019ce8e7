"""The import graph of the repository's Python files, read with `ast`; nothing is imported."""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASES = {"components": "components", "workloads": "workloads", "tests": ".", "tools": ".", "bench": ".", "stacks": "."}
"""Top folder to the folder that its modules are named from, as `pythonpath` in pyproject.toml has them."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Return the path of each module, relative to the root."""
    found = {}
    for top, base in BASES.items():
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root / base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.relative_to(root)
    return found


@functools.cache
def graph(root: Path = ROOT) -> dict[str, frozenset[str]]:
    """Map each module to the modules of the repository that run when it is imported."""
    paths = modules(root)
    return {name: frozenset(_imported(name, root / path, frozenset(paths))) - {name} for name, path in paths.items()}


def chains(edges: Mapping[str, Iterable[str]], roots: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map each module that the roots reach to a shortest chain of imports that leads to it."""
    reached: dict[str, tuple[str, ...]] = {root: (root,) for root in roots if root in edges}
    waiting = deque(reached)
    while waiting:
        module = waiting.popleft()
        for imported in sorted(edges[module]):
            if imported not in reached:
                reached[imported] = (*reached[module], imported)
                waiting.append(imported)
    return reached


def _imported(name: str, path: Path, known: frozenset[str]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for imported in _names(ast.parse(path.read_text(encoding="utf-8")), package):
        # a module's parents run before it; a name that is no module is an attribute of its parent
        parts = imported.split(".")
        yield from known.intersection(".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _names(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from _names(other, package)
        else:
            yield from _names(node, package)
