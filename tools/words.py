"""Refuse docstrings and comments with an unclear beginning, missing docstrings, and commit subjects of another form.

`python -m tools.words` checks the Python files of the repository, `python -m tools.words --subject FILE` a commit
message, for a commit-msg hook. CONTRIBUTING.md says how texts are written.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("bench", "components", "playbooks", "stacks", "tests", "tools", "workloads")
OPENING = re.compile(r"(What|Of|Who|Whom|Those|That|Which)\b", re.IGNORECASE)
HINT = "begin with a verb or a noun"
_NODE = "playbooks/collections/ansible_collections/stampworks/node/plugins"
IN_IMAGE = (
    *(f"{_NODE}/{folder}/" for folder in ("action", "module_utils", "plugin_utils")),
    *(
        f"{_NODE}/modules/{name}.py"
        for name in ("built", "container_images", "files", "packages", "pinned", "service_unit", "wheels")
    ),
)
"""Beginnings of unchecked paths: these files make the node image, and an edit of one renews every node."""
DOCUMENTED = ("components/stampworks/", "tools/", "workloads/")
"""Beginnings of the paths whose public modules, classes, functions and methods have docstrings."""
DOCUMENTED_SHARE_MIN = 0.95
SUBJECT_MAX = 72
SUBJECT = re.compile(r"[a-z0-9][\w./-]*(, [a-z0-9][\w./-]*)*: (?P<text>[A-Z]\S*( \S+)*)")
NO_VERB = re.compile(rf"({OPENING.pattern}|(The|A|An|No|How|Whether|When|Where)\b)")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
MADE_BY_GIT = re.compile(r"(Merge|Revert) |(fixup|squash|amend)! ")


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, including those of attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.strip()


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment. Consecutive lines form one comment."""
    block: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("#! ")
        alone = not token.line[: token.start[1]].strip()
        if block and not (alone and line == block[-1][0] + 1):
            yield _joined(block)
            block = []
        block.append((line, text))
        if not alone:
            yield _joined(block)
            block = []
    if block:
        yield _joined(block)


def _joined(block: Sequence[tuple[int, str]]) -> tuple[int, str]:
    return block[0][0], " ".join(text for _, text in block)


def python_files(root: Path = ROOT) -> list[Path]:
    """Return the Python files of the repository, relative to the root."""
    found = (path.relative_to(root) for top in TOPS for path in sorted((root / top).rglob("*.py")))
    return [path for path in found if "__pycache__" not in path.parts]


def problems(path: Path, source: str) -> list[str]:
    """Return a line for each docstring and comment of a file that opens with one of the refused words."""
    texts = sorted([*docstrings(ast.parse(source)), *comments(source)])
    return [
        f"{path}:{line}: opens with {opening[0]!r}: {HINT}: {text.splitlines()[0][:80]}"
        for line, text in texts
        if (opening := OPENING.match(text))
    ]


def public_definitions(tree: ast.Module) -> Iterator[tuple[str, ast.Module | Definition]]:
    """Yield a module and its public classes, functions and methods, each with its name; the module's is empty."""
    yield "", tree
    todo: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    for prefix, parent in todo:
        for node in parent.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    todo.append((f"{prefix}{node.name}.", node))


def documentation_problems(trees: Mapping[Path, ast.Module]) -> list[str]:
    """Return a line for each missing docstring, and the share of the others. Return nothing if the share suffices."""
    count, missing = 0, []
    for path, tree in trees.items():
        for name, node in public_definitions(tree):
            count += 1
            if ast.get_docstring(node) is None:
                missing.append(f"{path}:{getattr(node, 'lineno', 1)}: {name or 'the module'} has no docstring")
    share = 1 - len(missing) / count if count else 1.0
    if share >= DOCUMENTED_SHARE_MIN:
        return []
    least = f"{DOCUMENTED_SHARE_MIN:.0%}"
    return [*missing, f"{share:.1%} of {count} public definitions have a docstring: write {least} of them"]


def subject_problem(message: str) -> str:
    """Return the fault of a commit message's subject, or nothing."""
    subject = next((line for line in message.splitlines() if line.strip() and not line.startswith("#")), "")
    if MADE_BY_GIT.match(subject):
        return ""
    if len(subject) > SUBJECT_MAX:
        return f"the subject has {len(subject)} characters: use at most {SUBJECT_MAX}"
    form = SUBJECT.fullmatch(subject)
    if not form or NO_VERB.match(form["text"]) or subject.endswith("."):
        return (
            f"the subject is {subject!r}: write `area: Imperative`, as in `aws: Retry launches that find no capacity`"
        )
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every problem, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.words", description=__doc__)
    parser.add_argument("--subject", type=Path, metavar="FILE", help="check the commit message in FILE instead")
    parsed = parser.parse_args(arguments)
    if parsed.subject:
        problem = subject_problem(parsed.subject.read_text(encoding="utf-8"))
        found = [problem] if problem else []
    else:
        sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in python_files()}
        checked = {path: source for path, source in sources.items() if not path.as_posix().startswith(IN_IMAGE)}
        found = [line for path, source in checked.items() for line in problems(path, source)]
        found += documentation_problems(
            {path: ast.parse(source) for path, source in sources.items() if path.as_posix().startswith(DOCUMENTED)}
        )
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
