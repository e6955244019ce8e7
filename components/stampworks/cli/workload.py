"""`stampworks lint`: whether a workload for Kubernetes fits the nodes of a cluster, before it is submitted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    import yaml

    from stampworks.schedulers.workload import Remark

_MAX_KIB = 1024


def add_verbs(verbs: Any) -> None:
    """Add the verb `lint` and its options."""
    lint = verbs.add_parser(
        "lint", help="compare a workload for Kubernetes with the nodes of a plan", allow_abbrev=False
    )
    stacks.add_stack_option(lint)
    lint.add_argument("manifest", metavar="MANIFEST", help="a YAML or JSON file with one object or several; - is stdin")
    lint.add_argument("--json", action="store_true", help="print the findings as JSON")
    lint.set_defaults(call=lint_workload)


def lint_workload(arguments: argparse.Namespace) -> int:
    """Return the exit code: no when something cannot run, or would run without the fabric. Warnings alone are fine."""
    from stampworks.schedulers.workload import lint
    from stampworks.text.printable import printable

    plan = stacks.plan_of(arguments.stack)
    if not plan.scheduler.traits.runs_pods:
        what = f"the scheduler of cluster {plan.name} is {plan.scheduler.traits.title}"
        raise exits.CliError(
            f"{what}, and this command checks workloads of Kubernetes", "choose another stack: -s STACK"
        )
    where = "stdin" if arguments.manifest == "-" else arguments.manifest
    found = [
        (node, remark) for node, data in _documents(where, _text(arguments.manifest)) for remark in lint(plan, data)
    ]
    errors = sum(remark.severity == "error" for _, remark in found)
    if arguments.json:
        print(json.dumps({"remarks": [_as_json(where, *each) for each in found]}, indent=2))
    else:
        for node, remark in found:
            line, column = _place(node, remark.path)
            head = f"{where}:{line}:{column}: {remark.severity} {remark.id}: {dotted(remark.path)}: {remark.text}"
            print(f"{printable(head)}\n  hint: {printable(remark.hint)}")
        print(f"{errors} errors, {len(found) - errors} warnings")
    return exits.NO if errors else exits.FINE


def _text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read(_MAX_KIB * 1024 + 1) if file == "-" else Path(file).read_bytes()
        if len(data) > _MAX_KIB * 1024:
            raise exits.CliError(f"{file} is larger than {_MAX_KIB} KiB", "no workload is")
        return data.decode()
    except UnicodeDecodeError:
        raise exits.CliError(f"{file} is no text", "name a YAML or JSON file") from None


def _documents(where: str, text: str) -> Iterator[tuple[yaml.Node, Any]]:
    """Yield each document with its nodes, which know their position; a list of objects yields each object."""
    import yaml

    loader = yaml.SafeLoader
    try:
        # a few lines of them can stand for more than fits into any memory
        alias = next((each for each in yaml.parse(text, Loader=loader) if isinstance(each, yaml.AliasEvent)), None)
        if alias:
            place = _position(where, alias.start_mark)
            raise exits.CliError(f"{place}: an alias, which is not read here", "write its value out")
        nodes = list(yaml.compose_all(text, Loader=loader))
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = _position(where, getattr(error, "problem_mark", None))
        raise exits.CliError(f"{place} is not YAML", "kubectl would refuse it, too") from None
    for node, data in zip(nodes, documents, strict=True):
        if isinstance(data, dict) and data.get("kind") == "List" and isinstance(data.get("items"), list):
            items = next(value for key, value in node.value if key.value == "items")
            yield from zip(items.value, data["items"], strict=True)
        elif node is not None:
            yield node, data


def _position(where: str, mark: Any) -> str:
    """A place in the file; only the file if the parser reports no place."""
    return f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where


def _place(node: yaml.Node, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Line and column of a path, or of as much of it as is written."""
    import yaml

    mark = node.start_mark
    for step in path:
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == str(step)), None)
            if entry is None:
                break
            mark, node = entry[0].start_mark, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            mark = node.start_mark
    return mark.line + 1, mark.column + 1


def dotted(path: tuple[str | int, ...]) -> str:
    """Return a path as text: spec.containers[0].env."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _as_json(where: str, node: yaml.Node, remark: Remark) -> dict[str, Any]:
    line, column = _place(node, remark.path)
    return {
        "id": remark.id,
        "severity": remark.severity,
        "file": where,
        "line": line,
        "column": column,
        "path": dotted(remark.path),
        "message": remark.text,
        "hint": remark.hint,
    }
