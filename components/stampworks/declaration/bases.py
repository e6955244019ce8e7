"""What a base names by its own folder, from the folder of the file that extends it."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from stampworks.declaration.nodes import ValueNode, find


def moved(node: ValueNode, folder: str) -> ValueNode:
    """The base with its paths seen from the other folder, which the base's own is below, beside or above."""
    extras, found = find(node, ("extras",))
    if not found or folder == "." or not isinstance(node.value, dict) or not isinstance(extras.value, dict):
        return node
    lists = {key: _moved_paths(entry, folder) for key, entry in extras.value.items()}
    return replace(node, value={**node.value, "extras": replace(extras, value=lists)})


def _moved_paths(entries: ValueNode, folder: str) -> ValueNode:
    if not isinstance(entries.value, list):
        return entries
    return replace(entries, value=[_moved_path(entry, folder) for entry in entries.value])


def _moved_path(entry: ValueNode, folder: str) -> ValueNode:
    path, found = find(entry, ("path",))
    if not found or not isinstance(entry.value, dict) or not isinstance(path.value, str):
        return entry
    if path.value.startswith(("/", "~")):  # refused as it is
        return entry
    return replace(entry, value={**entry.value, "path": replace(path, value=posixpath.join(folder, path.value))})
