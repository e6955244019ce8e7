"""Load a declaration from a file with its bases, or from a value of Pulumi's configuration, with all problems in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stampworks.declaration import explain
from stampworks.declaration.checks import check
from stampworks.declaration.directories import check_directory
from stampworks.declaration.errors import PROBLEMS_MAX, AbsentError, DeclarationError, Problem
from stampworks.declaration.fields import fields
from stampworks.declaration.files import read_declared, stack_file
from stampworks.declaration.host_checks import check_hosts
from stampworks.declaration.key_files import KeyUrl, key_urls, with_certificates, with_keys
from stampworks.declaration.lock import NONE, Lock, read_lock
from stampworks.declaration.models import Declaration
from stampworks.declaration.nodes import UnreadValue, ValueNode, find, parsed, plain, spelled, walk
from stampworks.declaration.own import check_paths
from stampworks.declaration.reading import from_value
from stampworks.declaration.sound import part, sound

ENOUGH = PROBLEMS_MAX + 1
"""Limit for each kind of problem. No more are explained: the search for a hint compares all names."""


@dataclass(frozen=True)
class DeclarationSource:
    """A declaration with the positions of its values, and its problems."""

    sound: Declaration
    """The declaration without invalid values. Reading such a value raises AbsentError, so that planning finds other
    problems."""
    root: ValueNode
    problems: tuple[Problem, ...] = ()
    lock: Lock = NONE
    """Values that were looked up once for it."""
    key_urls: tuple[KeyUrl, ...] = ()
    """URLs with keys of users, which a lock has to have."""

    @property
    def declaration(self) -> Declaration:
        """Known good, or DeclarationError."""
        self.refuse_problems()
        return self.sound

    def refuse_problems(self) -> None:
        """Raise DeclarationError with all problems that need only the declaration."""
        if self.problems:
            raise DeclarationError(self.problems)

    def knows(self, path: str) -> bool:
        """Whether the value of a field is sound."""
        value: Any = self.sound
        try:
            for step in parsed(path):
                value = value[step] if isinstance(step, int) else getattr(value, step)
        except AbsentError:
            return False
        return True

    def problem(self, path: str, message: str, hint: str = "", last: bool = False) -> Problem:
        """Return a problem at the line of a field, or at the section that lacks it."""
        node, _ = find(self.root, parsed(path))
        return replace(node.place.problem(path, message, hint), last=last)


def load_file(path: Path, locked: bool = True, lock: Lock | None = None) -> DeclarationSource:
    """Load the declaration of a separate file, or below stampworks:cluster in a stack file, with its bases and lock.

    With `locked` false, ignore the lock and its faults: the caller writes it again. A given `lock` replaces the file's.
    """
    if lock is None and locked:
        lock = read_lock(path)
    return _load(read_declared(path), path.parent, lock)


def load_stack(stack: str, directory: Path) -> DeclarationSource:
    """The declaration of a stack, by the stack's name."""
    return load_file(stack_file(stack, directory))


def load_value(value: Any, origin: str, directory: Path = Path(), lock: Lock = NONE) -> DeclarationSource:
    """Load a declaration without a file: Pulumi's configuration, or one built in Python.

    Its problems name the origin instead of lines; its paths are relative to the directory.
    """
    return _load(from_value(value, origin), directory, lock)


def _load(root: ValueNode, directory: Path, lock: Lock | None) -> DeclarationSource:
    if problem := explain.of_another_version(root):
        raise DeclarationError([problem])
    urls, root = key_urls(root), with_keys(root, directory, lock.keys if lock else None)
    root = with_certificates(root, directory)
    problems = _defects(root)
    wrong = {path for path, node in walk(root) if isinstance(node.value, UnreadValue)}
    data = plain(root)
    try:
        declaration = Declaration.model_validate(data)
    except ValidationError as error:
        declaration = None
        found = explain.worth_saying(error.errors(), root, fields())
        problems += [explain.problem(each, root, fields()) for each in found[:ENOUGH]]
        wrong |= {each["loc"] for each in found} | explain.meant(found, fields())
    known = sound(data, frozenset(wrong))
    between = chain(check(known), check_directory(known), check_hosts(known), check_paths(known, directory))
    for path, message, hint in islice(between, ENOUGH):
        node, _ = find(root, path)
        problems.append(
            node.place.problem(spelled(path), message, hint + _replaced_list_note(path, node.place.file, root))
        )
        wrong.add(path)
    if declaration is None or problems:
        declaration = part(data, frozenset(wrong), Declaration)
    return DeclarationSource(declaration, root, tuple(problems), lock or NONE, urls)


def _replaced_list_note(path: Sequence[str | int], file: str, root: ValueNode) -> str:
    """Return a note about a list that replaces a base's."""
    lists = [index for index, step in enumerate(path) if isinstance(step, int)]
    if file == root.place.file or not lists:
        return ""
    return f" (a list {spelled(tuple(path[: lists[0]]))} in {root.place.file} takes the place of the one in the base)"


def _defects(root: ValueNode) -> list[Problem]:
    defects = (
        replace(
            defect.place.problem(spelled((*path, defect.key) if defect.key else path), defect.message, defect.hint),
            last=defect.last,
        )
        for path, node in walk(root)
        for defect in node.defects
    )
    return list(islice(defects, ENOUGH))
