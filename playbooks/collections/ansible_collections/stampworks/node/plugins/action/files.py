"""Renders a role's templates here and writes the whole set on the node in one task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped]
from ansible.plugins.loader import filter_loader  # type: ignore[import-untyped]
from ansible.template import trust_as_template  # type: ignore[import-untyped]
from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode

# Ansible loads all its filters when the first is used. Here that happens once, before it forks for each host.
filter_loader.get("ansible.builtin.to_json")


class ActionModule(OnNode):
    module = "files"

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        files = [self._complete(each, task_vars) for file in arguments["files"] for each in single(file)]
        return {**arguments, "files": files}

    def _complete(self, file: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """The file with its content, whatever the task gave instead."""
        given = [key for key in ("content", "template", "source", "tree", "directory") if file.get(key)]
        if len(given) > 1 or (not given and file.get("content") is None):
            raise AnsibleActionFail(
                f"files: {file['path']}: give one of content, template, source, tree and directory,"
                f" not {' and '.join(given) or 'none of them'}"
            )
        template, source = file.pop("template", None), file.pop("source", None)
        if template:
            file["content"] = self._rendered(template, task_vars)
        if source:
            file["content"] = Path(self._find_needle("files", source)).read_text(encoding="utf-8")
        return file

    def _rendered(self, name: str, task_vars: dict[str, Any]) -> str:
        path = Path(self._find_needle("templates", name))
        templar = self._templar.copy_with_new_env(searchpath=[str(path.parent)], available_variables=task_vars)
        text = trust_as_template(path.read_text(encoding="utf-8"))
        return str(templar.template(text, escape_backslashes=False, overrides={"trim_blocks": True}))


def single(file: dict[str, Any]) -> list[dict[str, Any]]:
    """What was asked for; instead of a tree each of its files, with its place below the path."""
    if not file.get("tree") or file.get("content") is not None:
        return [file]
    tree = Path(file["tree"])
    found = sorted(path for path in tree.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    if not found:
        raise AnsibleActionFail(f"files: {file['path']}: there is no file in {tree}")
    rest = {key: value for key, value in file.items() if key != "tree"}
    paths = {path: f"{file['path']}/{path.relative_to(tree)}" for path in found}
    return [{**rest, "path": paths[path], "content": path.read_text(encoding="utf-8")} for path in found]
