"""Runs our modules on a node as plain Python programs.

Ansible's usual wrapper carries its own library to the node with every task and imports it there, which costs four times
what these modules themselves do (see playbooks/README.md). So a module here imports the standard library and our own
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

SAID_MAX = 2000
"""How many characters of what a node said stand in an error."""
DRIFT_MAX = 100
"""How many words of what differs: nobody reads more of one task on one node."""
SECRET_MIN = 6
"""Of a secret, shorter lines than this say nothing, and would be found everywhere."""

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
            return believed(self.module, json.loads(answer["stdout"]))
        except (ValueError, RecursionError):
            said = (answer["stderr"] or answer["stdout"]).strip() or f"exit code {answer['rc']} without a word"
            raise AnsibleActionFail(f"{self.module} broke on the node: {quoted(said, arguments)}") from None


def believed(module: str, answer: Any) -> dict[str, Any]:
    """Of a node's answer, what a module of ours may say; ValueError when it is none.

    Ansible obeys more than that: by an answer that adds a host, with variables by which the next task runs right here,
    a node that somebody has taken over would take over this machine.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("changed"), bool):
        raise ValueError("not a result")
    facts, diff, drift = (answer.get(key) for key in ("ansible_facts", "diff", "drift"))
    result: dict[str, Any] = {"changed": answer["changed"]}
    if "failed" in answer:
        result["failed"] = True
        # whole, as far as ssh lets it through: who shows it takes secrets out before it is shortened
        result["msg"] = str(answer.get("msg") or "it gave no reason")
    if isinstance(diff, list):
        result["diff"] = [each for each in diff if _is_texts(each)]
    if isinstance(drift, list):
        result["drift"] = [str(words)[:SAID_MAX] for words in drift[:DRIFT_MAX]]
    if isinstance(facts, dict) and module in facts:
        result["ansible_facts"] = {module: facts[module]}
    return result


def quoted(said: str, arguments: Any) -> str:
    """The end of what a program said, where it says why it failed, without the secrets that it was given."""
    for secret in sorted(secret_lines(arguments), key=len, reverse=True):
        said = said.replace(secret, "[secret]")
    return said if len(said) <= SAID_MAX else "... " + said[-SAID_MAX:]


def secret_lines(arguments: Any) -> set[str]:
    if isinstance(arguments, list):
        return {line for item in arguments for line in secret_lines(item)}
    if not isinstance(arguments, dict):
        return set()
    if arguments.get("secret"):
        return {line for line in str(arguments.get("content")).splitlines() if len(line) >= SECRET_MIN}
    return secret_lines(list(arguments.values()))


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


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
