"""Check that the user's roles and checks exist in the folder of the declaration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from stampworks.declaration.checks import Entry, FieldFinding
from stampworks.declaration.files import displayed
from stampworks.declaration.reading import CORE_TAG, WORDS
from stampworks.declaration.wording import did_you_mean

PROJECT = "Pulumi.yaml"
META = ("main.yml", "main.yaml", "main.json", "main")
"""Files in which Ansible looks for the dependencies of a role."""
META_SIZE_MAX_KIB = 64
NOTHING = ([], *(word for word, value in WORDS.items() if value is None))
CHECK_SIZE_MAX_KIB = 64
"""Limit for a check: nodes get its text through Pulumi's state."""


def check_paths(data: Entry, directory: Path) -> Iterator[FieldFinding]:
    """Yield the problems of the named folders and files."""
    extras = data.get("extras", {})
    for kind, problem in (("roles", _role_problem), ("checks", _check_problem)):
        for index, entry in enumerate(extras.get(kind, ())):
            if not (path := entry.get("path")):
                continue
            named = directory / path
            if found := outside(named, directory) or problem(named):
                yield FieldFinding(("extras", kind, index, "path"), f"{displayed(named)} {found[0]}", found[1])


def outside(named: Path, directory: Path) -> tuple[str, str] | None:
    """Return message and hint for a path outside of the project. Links count as their targets: a project must be
    complete."""
    folder = directory.resolve()
    project = next((above for above in (folder, *folder.parents) if (above / PROJECT).is_file()), folder)
    if Path(os.path.realpath(named)).is_relative_to(project):  # resolve() raises at a link to itself
        return None
    return "lies outside of the project", f"copy it into {project}"


def _role_problem(folder: Path) -> tuple[str, str] | None:
    if not os.path.lexists(folder):
        return "does not exist", did_you_mean(folder.name, _roles_in(folder.parent)) or "no role is there"
    if not _is_role(folder):
        return "is not a role", "a role is a folder with tasks/main.yml"
    if link := next(_linked_folders(folder), None):
        return (
            f"has a link that leads to a folder, {link}",
            "put the folder itself there: the files behind the link would not reach the nodes",
        )
    return _dependencies_problem(folder)


def _linked_folders(folder: Path) -> Iterator[Path]:
    """Yield links to folders: their content can change without a change of the role."""
    for above, names, _ in os.walk(folder):
        links = (Path(above, name) for name in names)
        yield from (link.relative_to(folder) for link in links if link.is_symlink())


def _dependencies_problem(folder: Path) -> tuple[str, str] | None:
    """Refuse a role that another role names: it would run without being declared."""
    for file in (folder / "meta" / name for name in META):
        if not file.is_file():
            continue
        try:
            needed = _dependencies(file)
        except (OSError, ValueError, OverflowError, yaml.YAMLError, RecursionError):
            hint = (
                f"write YAML in UTF-8, at most {META_SIZE_MAX_KIB} KiB, without tags of Ansible and without merge keys"
            )
            return f"has a meta/{file.name} that cannot be read", hint
        if needed:
            return (
                "depends on another role",
                f"list that role in extras.roles before this one, and remove it from meta/{file.name}",
            )
    return None


def _dependencies(file: Path) -> bool:
    """Whether it names any. Nodes only: as values, a few lines that merge each other would fill any memory."""
    with file.open("rb") as opened:
        content = opened.read(META_SIZE_MAX_KIB * 1024 + 1)
    if len(content) > META_SIZE_MAX_KIB * 1024:
        raise ValueError(f"{file} is too large")
    root = yaml.compose(content.decode(), Loader=yaml.BaseLoader)
    entries = root.value if isinstance(root, yaml.MappingNode) else ()
    if any(key.value == "<<" for key, _ in entries):
        raise ValueError(f"{file} uses merge keys")
    needed = [value for key, value in entries if key.value == "dependencies"]
    if any(not value.tag.startswith(CORE_TAG) for value in needed):
        raise ValueError(f"{file} tags its dependencies")
    return any(value.value not in NOTHING for value in needed)


def _roles_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if _is_role(each)] if folder.is_dir() else []


def _is_role(folder: Path) -> bool:
    return any((folder / "tasks" / name).is_file() for name in ("main.yml", "main.yaml"))


def _check_problem(file: Path) -> tuple[str, str] | None:
    if not os.path.lexists(file):
        beside = [each.name for each in file.parent.iterdir() if each.is_file()] if file.parent.is_dir() else []
        return "does not exist", did_you_mean(file.name, beside) or "no file is there"
    if not file.is_file():
        return "is not a file", "a check is a script"
    try:
        with file.open("rb") as opened:
            text = opened.read(CHECK_SIZE_MAX_KIB * 1024 + 1)
        text.decode()
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}", ""
    except UnicodeDecodeError:
        text = b""
    if not text.startswith(b"#!"):
        return "is not a script", "write it in UTF-8, with the interpreter in its first line, for example #!/bin/sh"
    if len(text) > CHECK_SIZE_MAX_KIB * 1024:
        return f"is larger than {CHECK_SIZE_MAX_KIB} KiB", "let a role install what it needs, and the check call that"
    return None
