"""Read declarations from their own files or from Pulumi's stack files, on top of base files."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from stampworks.declaration.bases import moved
from stampworks.declaration.errors import DeclarationError
from stampworks.declaration.keys import FILE as KEY_FILE
from stampworks.declaration.nodes import FilePosition, ValueNode, find, merged
from stampworks.declaration.reading import read
from stampworks.declaration.wording import alternatives, did_you_mean, shown, similar

SIZE_MAX_KIB = 256
"""Limit for a file with its bases, for time and memory. A declaration of a thousand pools is smaller."""
BASES_MAX = 8
"""Maximum number of files in a chain of bases."""
SUFFIXES = (".yaml", ".yml")
STACK_KEY = "stampworks:cluster"
EXAMPLE = """\
version: 1
name: my-cluster
cloud: local
pools:
  - {name: gpu, machine: sim-h100, count: 4}"""
STACK_EXAMPLE = f"config:\n  {STACK_KEY}:\n    " + EXAMPLE.replace("\n", "\n    ")
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class UnreadableError(Exception):
    """Reason why a file cannot be read; the caller adds its name and the place that named it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def stack_file(stack: str, directory: Path) -> Path:
    """Return the file of a stack's configuration; raise DeclarationError if it does not exist."""
    name = stack.rpartition("/")[2]  # Pulumi's full names are organization/project/stack
    path = directory / f"Pulumi.{name}.yaml"
    if not os.path.isfile(path):  # noqa: PTH113  # is_file() raises for a name that no file can have
        stacks = [file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in directory.glob("Pulumi.*.yaml")]
        meant = name.removeprefix("Pulumi.").removesuffix(".yaml")
        hint = did_you_mean(meant, stacks) or "write the file, for example from another stack's"
        raise DeclarationError([FilePosition(displayed(path)).problem("", f"there is no stack {shown(name)}", hint)])
    return path


def read_declared(path: Path) -> ValueNode:
    """Return the declaration of a file, merged with its bases. Raise DeclarationError for unreadable ones."""
    try:
        text = text_of(path)
    except UnreadableError as error:
        raise DeclarationError([FilePosition(displayed(path)).problem("", str(error), error.hint)]) from None
    return _with_bases(path, text, (), len(text))


def named_in(path: Path) -> list[tuple[str, ValueNode]]:
    """Return the files and folders that a file names, relative to its own folder, each with its field; nothing for an
    unreadable file, because its loader reports the reason."""
    try:
        root = _declared(text_of(path), path)
    except (DeclarationError, UnreadableError):
        return []
    extends, found = find(root, ("extends",))
    named = [("extends", extends)] if found else []
    for kind in ("roles", "checks"):
        entries, found = find(root, ("extras", kind))
        for index, entry in enumerate(entries.value if found and isinstance(entries.value, list) else ()):
            path_, found = find(entry, ("path",))
            named += [(f"extras.{kind}[{index}].path", path_)] if found else []
    named += _key_files(root)
    ca, found = find(root, ("directory", "ca", KEY_FILE))
    named += [(f"directory.ca.{KEY_FILE}", ca)] if found else []
    return [(field, node) for field, node in named if isinstance(node.value, str) and node.value]


def _key_files(root: ValueNode) -> Iterator[tuple[str, ValueNode]]:
    users, _ = find(root, ("users",))
    for index, user in enumerate(users.value if isinstance(users.value, list) else ()):
        keys, found = find(user, ("keys",))
        for place, key in enumerate(keys.value if found and isinstance(keys.value, list) else ()):
            file, found = find(key, (KEY_FILE,))
            if found:
                yield f"users[{index}].keys[{place}].{KEY_FILE}", file


def displayed(path: Path) -> str:
    """A path as messages show it: from the working directory when it is below it."""
    absolute, here = Path(os.path.abspath(path)), Path.cwd()  # noqa: PTH100  # resolve() would show where links lead
    if absolute == here:
        return "the working directory"
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else path)


def _with_bases(path: Path, text: str, above: tuple[Path, ...], size: int) -> ValueNode:
    """Size is how much was read with it, and with the files above."""
    node = _declared(text, path)
    extends, found = find(node, ("extends",))
    if not found or not isinstance(extends.value, str):
        return node
    base = path.parent / extends.value
    chain = (*above, path)
    if len(chain) > BASES_MAX:
        problem = extends.place.problem("extends", f"more than {BASES_MAX} bases extend one another", "merge some")
        raise DeclarationError([problem])
    try:
        text = text_of(base)
    except UnreadableError as error:
        message = f"{displayed(base)} {error}"
        raise DeclarationError([extends.place.problem("extends", message, error.hint)]) from None
    if any(base.samefile(file) for file in chain):
        circle = " -> ".join(map(displayed, (*chain, base)))
        problem = extends.place.problem(
            "extends", f"bases extend each other in a circle: {circle}", "take this extends: out"
        )
        raise DeclarationError([problem])
    if size + len(text) > SIZE_MAX_KIB * 1024:
        message = f"{displayed(base)} makes the whole larger than {SIZE_MAX_KIB} KiB"
        raise DeclarationError(
            [extends.place.problem("extends", message, "shorten it, or move entries that repeat into a base")]
        )
    below = moved(_with_bases(base, text, chain, size + len(text)), os.path.relpath(base.parent, path.parent))
    return merged(below, node)


def _declared(text: str, path: Path) -> ValueNode:
    """The mapping that declares a cluster: the whole file, or the part of a stack file."""
    place = FilePosition(displayed(path))
    root = read(text, place.file)
    is_stack = path.name.startswith("Pulumi.") or (root is not None and "config" in _entries(root))
    if root is None:
        raise DeclarationError([place.problem("", "the file is empty", _write_one(is_stack))])
    node = _stack_declaration(root) if is_stack else root
    if isinstance(node.value, dict):
        return node
    if node.defects:
        raise DeclarationError([defect.place.problem("", defect.message, defect.hint) for defect in node.defects])
    message = "has no value" if node.value is None else "must be a mapping"
    raise DeclarationError(
        [node.place.problem(STACK_KEY if is_stack else "declaration", message, _write_one(is_stack))]
    )


def _stack_declaration(root: ValueNode) -> ValueNode:
    twice = [defect for defect in root.defects if defect.key == "config"]
    config, found = find(root, ("config",))
    twice += [defect for defect in config.defects if found and defect.key == STACK_KEY]
    if twice:
        raise DeclarationError([defect.place.problem("", defect.message, defect.hint) for defect in twice])
    cluster, found = find(root, ("config", STACK_KEY))
    if found:
        return cluster
    near = similar(STACK_KEY, _entries(config))
    hint = f"is '{near}' meant?" if near else _write_one(is_stack=True)
    raise DeclarationError([cluster.place.problem("", f"there is no {STACK_KEY} in the configuration", hint)])


def _entries(node: ValueNode) -> dict[str, ValueNode]:
    return node.value if isinstance(node.value, dict) else {}


def _write_one(is_stack: bool) -> str:
    return f"write one, for example\n{STACK_EXAMPLE if is_stack else EXAMPLE}"


def text_of(path: Path, suffixes: tuple[str, ...] = SUFFIXES) -> str:
    """Return the text of a file with one of these endings; raise UnreadableError with the reason otherwise."""
    content = _content(path, suffixes)
    if content.startswith(WIDE_MARKS):
        raise UnreadableError("is UTF-16", "save it as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        line = content.split(b"\n")[before.count("\n")].decode(errors="replace")
        column = len(before) - before.rfind("\n")
        place = FilePosition(displayed(path), before.count("\n") + 1, column, line)
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        raise DeclarationError([place.problem("", message, "save the file as UTF-8")]) from None


def _content(path: Path, suffixes: tuple[str, ...]) -> bytes:
    try:
        with open(path, "rb", opener=_opened) as file:  # Path.open takes no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnreadableError("is not a file", f"name one that ends in {suffixes[0]}")
            # A declaration in a pull request may name private files of the machine, and errors quote what they read:
            # links must lead to a file with the right ending.
            if path.resolve().suffix not in suffixes:
                kind = suffixes[0][1:].upper()
                raise UnreadableError(f"is not called a {kind} file", f"give it a name that ends in {suffixes[0]}")
            content = file.read(SIZE_MAX_KIB * 1024 + 1)
    except FileNotFoundError:
        raise UnreadableError("does not exist", _nearest_file(path)) from None
    except IsADirectoryError:
        raise UnreadableError("is a directory", f"name a file in it; {_nearest_file(path / '*')}") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableError(f"cannot be read: {reason.lower()}", "") from None
    if len(content) > SIZE_MAX_KIB * 1024:
        raise UnreadableError(
            f"is larger than {SIZE_MAX_KIB} KiB", "shorten it, or move entries that repeat into a base"
        )
    return content


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _nearest_file(path: Path) -> str:
    """Return the file that was probably meant."""
    files = {file.stem: file.name for pattern in ("*.yaml", "*.yml") for file in path.parent.glob(pattern)}
    if near := similar(path.stem, files):
        return f"did you mean '{files[near]}'?"
    there = alternatives(sorted(files.values()), "and") if files else "no YAML files"
    return f"{displayed(path.parent)} has {there}"
