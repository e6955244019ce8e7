"""Checks the inventory against the argument specs of the roles, before any node is asked anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator  # type: ignore[import-untyped]
from ansible.plugins.action import ActionBase  # type: ignore[import-untyped]


class ActionModule(ActionBase):  # type: ignore[misc]
    """Runs once for all hosts: Ansible's own check is a task for each role on each host."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.validate_argument_spec({"roles": {"type": "path", "required": True}})
        task_vars = task_vars or {}
        problems = sorted(
            problem
            for role in sorted(Path(self._task.args["roles"]).iterdir())
            if role.name in task_vars["groups"] or role.name == "validate"
            for problem in role_problems(role, task_vars["groups"], task_vars["hostvars"])
        )
        if problems:
            result.update(failed=True, msg="the inventory is not what the roles expect:\n" + "\n".join(problems))
        return result


def role_problems(role: Path, groups: Mapping[str, list[str]], hostvars: Mapping[str, Any]) -> Iterator[str]:
    """Problems of one role, each with all the hosts that have it."""
    options = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = options["argument_specs"]["main"].get("options", {})
    hosts_of: dict[str, list[str]] = {}
    for host in groups.get(role.name, groups["all"]):
        for problem in host_problems(role.name, options, hostvars[host]):
            hosts_of.setdefault(problem, []).append(host)
    for problem, hosts in hosts_of.items():
        yield f"  {role.name} on {', '.join(sorted(hosts))}: {problem}"


def host_problems(role: str, options: Mapping[str, Any], variables: Mapping[str, Any]) -> list[str]:
    given = {name: variables[name] for name in options if name in variables}
    asked = {name: {**option, "required": option.get("required", False)} for name, option in options.items()}
    problems = list(ArgumentSpecValidator(asked).validate(given).error_messages)
    strange = [name for name in variables if name.startswith(f"{role}_") and name not in options]
    return problems + [f"the role has no variable {name}" for name in strange]
