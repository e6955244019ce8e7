"""Keys of users in files or locks, which replace `{file: ...}` and `{url: ...}`.

This module fetches nothing: `stampworks lock` requests URLs (cli/key_urls.py), and everything else reads the lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stampworks.declaration.errors import Problem
from stampworks.declaration.keys import FILE, URL, identity, url_problem
from stampworks.declaration.nodes import Defect, FilePosition, UnreadValue, ValueNode, spelled
from stampworks.declaration.own import outside

FILE_SIZE_MAX = 16_384
LOOK_UP = "`stampworks lock -s STACK` looks them up, and keeps them beside the stack's file"


@dataclass(frozen=True)
class KeyUrl:
    """An entry that names a URL with the keys of a user."""

    path: str
    """The field, as messages show it."""
    place: FilePosition
    user: str
    url: str

    def problem(self, message: str, hint: str) -> Problem:
        """Return a problem at the place where the URL is written."""
        return self.place.problem(self.path, message, hint)


def key_urls(root: ValueNode) -> tuple[KeyUrl, ...]:
    """Return the legal URLs of a declaration in its order."""
    return tuple(
        KeyUrl(spelled(("users", index, "keys", item)), named.place, str(user.value["name"].value), str(named.value))
        for index, user in enumerate(_users(root))
        if isinstance(user.value, dict) and "name" in user.value
        for item, entry in enumerate(_entries(user))
        if (named := _named(entry, URL)) and not url_problem(str(named.value))
    )


def with_keys(root: ValueNode, directory: Path, found: Mapping[str, Sequence[str]] | None) -> ValueNode:
    """Return the declaration with keys in the place of files and URLs.

    `found` has the keys by URL, as a lock holds them; without it, entries with a URL are left out.
    """
    if not (users := _users(root)) or not isinstance(root.value, dict):
        return root
    read: Any = [_with_keys(user, directory, found) for user in users]
    return replace(root, value={**root.value, "users": replace(root.value["users"], value=read)})


def with_certificates(root: ValueNode, directory: Path) -> ValueNode:
    """Return the declaration with the text of a file in the place of `directory.ca: {file: ...}`."""
    section = root.value.get("directory") if isinstance(root.value, dict) else None
    if not section or not isinstance(section.value, dict) or not isinstance(root.value, dict):
        return root
    if not (entry := section.value.get("ca")) or not (named := _named(entry, FILE)):
        return root
    text, problem = _text(directory, str(named.value))
    hint = "name a file of the project with the certificates, from this file's folder"
    read = _unread(named, f"{named.value} {problem}", hint) if problem else replace(named, value=text, written="")
    return replace(root, value={**root.value, "directory": replace(section, value={**section.value, "ca": read})})


def _users(root: ValueNode) -> list[ValueNode]:
    users = root.value.get("users") if isinstance(root.value, dict) else None
    return users.value if users and isinstance(users.value, list) else []


def _entries(user: ValueNode) -> list[ValueNode]:
    keys = user.value.get("keys") if isinstance(user.value, dict) else None
    return keys.value if keys and isinstance(keys.value, list) else []


def _named(entry: ValueNode, kind: str) -> ValueNode | None:
    """Return the file or the URL of an entry that consists of it."""
    named = entry.value.get(kind) if isinstance(entry.value, dict) and len(entry.value) == 1 else None
    return named if named and isinstance(named.value, str) else None


def _with_keys(user: ValueNode, directory: Path, found: Mapping[str, Sequence[str]] | None) -> ValueNode:
    if not (entries := _entries(user)) or not isinstance(user.value, dict):
        return user
    # A user may publish a key at two places. Only keys that are written here can be repeated by mistake.
    texts = {identity(entry.value) for entry in entries if isinstance(entry.value, str)}
    read: Any = [key for entry in entries for key in _keys_of(entry, directory, found, texts)]
    return replace(user, value={**user.value, "keys": replace(user.value["keys"], value=read)})


def _keys_of(
    entry: ValueNode, directory: Path, found: Mapping[str, Sequence[str]] | None, seen: set[tuple[str, ...]]
) -> list[ValueNode]:
    """Return an entry of a list of keys, or the keys of a file or lock."""
    if not isinstance(entry.value, dict):
        return [entry]
    if url := _named(entry, URL):
        return list(_looked_up(url, found, seen))
    if not (named := _named(entry, FILE)):
        hint = f"write {FILE}: and the path of a .pub file, or {URL}: and where keys are published"
        return [_unread(entry, "a key is a text, a file with keys, or a URL with keys", hint)]
    lines, problem = _lines(directory, str(named.value))
    if problem:
        return [_unread(named, f"{named.value} {problem}", "name a .pub file of the project, from this file's folder")]
    return [replace(named, value=line, written=line) for line in lines]


def _looked_up(
    named: ValueNode, found: Mapping[str, Sequence[str]] | None, seen: set[tuple[str, ...]]
) -> Iterator[ValueNode]:
    url = str(named.value)
    if problem := url_problem(url):
        yield _unread(named, problem, "write where keys are published, like https://example.org/alice.keys")
    elif found is not None and url not in found:
        yield _unread(named, f"which keys {url} has was not looked up", LOOK_UP, last=True)
    for line in found.get(url, ()) if found else ():
        if identity(line) not in seen:
            seen.add(identity(line))
            yield replace(named, value=line, written=line)


def _unread(node: ValueNode, message: str, hint: str, last: bool = False) -> ValueNode:
    return replace(node, value=UnreadValue(), defects=(Defect(node.place, "", message, hint, last),))


def _text(directory: Path, name: str) -> tuple[str, str]:
    """Return the text of a file, or its problem."""
    file = directory / name
    if found := outside(file, directory):
        return "", found[0]
    try:
        text = file.read_bytes()[: FILE_SIZE_MAX + 1].decode("ascii")
    except OSError as error:
        return "", f"cannot be read: {(error.strerror or 'it is no file').lower()}"
    except (ValueError, UnicodeDecodeError):
        return "", "is not plain text"
    if len(text) > FILE_SIZE_MAX:
        return "", f"is larger than {FILE_SIZE_MAX // 1024} KiB"
    return text, ""


def _lines(directory: Path, name: str) -> tuple[list[str], str]:
    """Return the keys in a file, or its problem."""
    text, problem = _text(directory, name)
    if problem:
        return [], f"has no public keys: it {problem}" if problem.startswith("is ") else problem
    lines = [line.strip() for line in text.splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if any("PRIVATE KEY" in line for line in keys):
        return [], "holds a private key, which must never leave its owner's machine"
    return (keys, "") if keys else ([], "holds no key")
