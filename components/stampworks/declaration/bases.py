"""Paths that a base names from its own folder, seen from the folder of the file that extends it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace

from stampworks.declaration.keys import FILE as KEY_FILE
from stampworks.declaration.nodes import ValueNode, find

Move = Callable[[ValueNode, str, str], ValueNode]


def moved(node: ValueNode, folder: str) -> ValueNode:
    """Return a base with its paths relative to the other folder."""
    if folder == "." or not isinstance(node.value, dict):
        return node
    value = dict(node.value)
    extras, found = find(node, ("extras",))
    if found and isinstance(extras.value, dict):
        lists = {key: _moved_entries(entries, _moved_path, "path", folder) for key, entries in extras.value.items()}
        value["extras"] = replace(extras, value=lists)
    if "users" in value:
        value["users"] = _moved_entries(value["users"], _moved_keys, KEY_FILE, folder)
    directory, found = find(node, ("directory",))
    if found and isinstance(directory.value, dict) and "ca" in directory.value:
        ca = _moved_path(directory.value["ca"], KEY_FILE, folder)
        value["directory"] = replace(directory, value={**directory.value, "ca": ca})
    return replace(node, value=value)


def _moved_entries(entries: ValueNode, move: Move, key: str, folder: str) -> ValueNode:
    if not isinstance(entries.value, list):
        return entries
    return replace(entries, value=[move(entry, key, folder) for entry in entries.value])


def _moved_keys(user: ValueNode, key: str, folder: str) -> ValueNode:
    keys, found = find(user, ("keys",))
    if not found or not isinstance(user.value, dict):
        return user
    return replace(user, value={**user.value, "keys": _moved_entries(keys, _moved_path, key, folder)})


def _moved_path(entry: ValueNode, key: str, folder: str) -> ValueNode:
    path, found = find(entry, (key,))
    if not found or not isinstance(entry.value, dict) or not isinstance(path.value, str):
        return entry
    if path.value.startswith(("/", "~")):  # it is refused unchanged
        return entry
    return replace(entry, value={**entry.value, key: replace(path, value=posixpath.join(folder, path.value))})
