"""Keys of users that a declaration has in files: their lines take the place of `{file: ...}`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from stampworks.declaration.keys import FILE
from stampworks.declaration.nodes import Defect, UnreadValue, ValueNode
from stampworks.declaration.own import outside

FILE_SIZE_MAX = 16_384


def with_key_files(root: ValueNode, directory: Path) -> ValueNode:
    """The declaration with the keys of each `{file: ...}` in its place."""
    if not isinstance(root.value, dict) or not (users := root.value.get("users")) or not isinstance(users.value, list):
        return root
    entries: Any = [_with_keys(user, directory) for user in users.value]
    return replace(root, value={**root.value, "users": replace(users, value=entries)})


def _with_keys(user: ValueNode, directory: Path) -> ValueNode:
    if not isinstance(user.value, dict) or not (keys := user.value.get("keys")) or not isinstance(keys.value, list):
        return user
    read: Any = [key for entry in keys.value for key in _keys_of(entry, directory)]
    return replace(user, value={**user.value, "keys": replace(keys, value=read)})


def _keys_of(entry: ValueNode, directory: Path) -> list[ValueNode]:
    """One entry of a list of keys, or those of the file that it names."""
    if not isinstance(entry.value, dict):
        return [entry]
    named = entry.value.get(FILE)
    if named is None or len(entry.value) > 1 or not isinstance(named.value, str):
        return [
            _unread(
                entry,
                "a key is the line of a .pub file, or a mapping with the path of such a file",
                f"write {FILE}: and the path of a .pub file",
            )
        ]
    lines, problem = _lines(directory, named.value)
    if problem:
        return [_unread(named, f"{named.value} {problem}", "name a .pub file of the project, from this file's folder")]
    return [replace(named, value=line, written=line) for line in lines]


def _unread(node: ValueNode, message: str, hint: str) -> ValueNode:
    return replace(node, value=UnreadValue(), defects=(Defect(node.place, "", message, hint),))


def _lines(directory: Path, name: str) -> tuple[list[str], str]:
    """The keys in a file, or what is wrong with it."""
    file = directory / name
    if found := outside(file, directory):
        return [], found[0]
    try:
        text = file.read_bytes()[: FILE_SIZE_MAX + 1].decode("ascii")
    except OSError as error:
        return [], f"cannot be read: {(error.strerror or 'not a file').lower()}"
    except (ValueError, UnicodeDecodeError):
        return [], "is not a file of public keys: it is not plain text"
    lines = [line.strip() for line in text.splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if len(text) > FILE_SIZE_MAX:
        return [], "is too large for a file of public keys"
    if any("PRIVATE KEY" in line for line in keys):
        return [], "holds a private key, which must never leave its owner's machine"
    return (keys, "") if keys else ([], "holds no key")
