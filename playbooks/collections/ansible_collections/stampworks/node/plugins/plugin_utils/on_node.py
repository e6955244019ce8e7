"""Runs our modules on a node as plain Python programs.

Ansible's usual wrapper carries its own library to the node with every task and imports it there, which costs four times
what these modules themselves do (see docs of the collection). So a module here imports the standard library and our own
module_utils only, is tested without Ansible, and travels as text on ssh's standard input: no temporary file, no secret
on a command line.
"""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path
from typing import Any, ClassVar

import yaml
from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped]
from ansible.plugins.action import ActionBase  # type: ignore[import-untyped]

PLUGINS = Path(__file__).resolve().parents[1]
UTILS = "ansible_collections.stampworks.node.plugins.module_utils"

# Sources arrive in the order of their imports, so each finds the ones before it in sys.modules.
BOOTSTRAP = """
import json, sys, types
work = json.load(sys.stdin)
for name, source in work["sources"]:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
json.dump(sys.modules["main"].answer(work["arguments"], work["check"]), sys.stdout)
"""


class OnNode(ActionBase):  # type: ignore[misc]
    """Checks the task's arguments against the module's own documentation, then runs the module on the node."""

    TRANSFERS_FILES = False
    module: ClassVar[str]
    spec: ClassVar[dict[str, Any]]
    sources: ClassVar[list[tuple[str, str]]]

    def __init_subclass__(cls) -> None:
        """Reads the module once: Ansible loads this class and then forks for each task on each host."""
        cls.spec, cls.sources = argument_spec(cls.module), sources(cls.module)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(self.spec)
        task_vars = task_vars or {}
        result.update(self.on_node(self.prepare(arguments, task_vars), task_vars))
        return result

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 (a hook)
        """What is done here, on the controller, before the node is asked."""
        return arguments

    def on_node(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        work = {"sources": self.sources, "arguments": arguments, "check": self._task.check_mode}
        python = task_vars.get("ansible_python_interpreter", "/usr/bin/python3")
        answer = self._low_level_execute_command(
            f"{shlex.quote(python)} -IS -c {shlex.quote(BOOTSTRAP)}", in_data=json.dumps(work).encode()
        )
        try:
            result: dict[str, Any] = json.loads(answer["stdout"])
        except ValueError:
            said = (answer["stderr"] or answer["stdout"]).strip() or f"exit code {answer['rc']} without a word"
            raise AnsibleActionFail(f"{self.module} broke on the node: {said}") from None
        return result


def argument_spec(module: str) -> dict[str, Any]:
    """A module's options as its documentation states them, in the form Ansible checks arguments against."""
    tree = ast.parse(_source(PLUGINS / "modules" / f"{module}.py"))
    text = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCUMENTATION"
    )
    return _spec(yaml.safe_load(text)["options"])


def _spec(options: dict[str, Any]) -> dict[str, Any]:
    kept = ("type", "required", "default", "choices", "elements", "no_log")
    return {
        name: {key: option[key] for key in kept if key in option}
        | ({"options": _spec(option["suboptions"])} if "suboptions" in option else {})
        for name, option in options.items()
    }


def sources(module: str) -> list[tuple[str, str]]:
    """The module and those of our utilities that it imports, each after what it needs."""
    ordered: dict[str, str] = {}

    def visit(name: str, text: str) -> None:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(UTILS + "."):
                needed = str(node.module)
                visit(needed, _source(PLUGINS / "module_utils" / f"{needed.removeprefix(UTILS + '.')}.py"))
        ordered.setdefault(name, text)

    visit("main", _source(PLUGINS / "modules" / f"{module}.py"))
    return list(ordered.items())


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")
