"""Read a job file or a command line, and collect all problems in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Any

from pydantic import ValidationError

from stampworks.declaration import explain
from stampworks.declaration.errors import AbsentError, DeclarationError, Problem
from stampworks.declaration.fields import fields
from stampworks.declaration.files import SUFFIXES, UnreadableError, displayed, text_of
from stampworks.declaration.nodes import (
    FilePosition,
    UnreadValue,
    ValueNode,
    find,
    merged,
    parsed,
    plain,
    spelled,
    walk,
)
from stampworks.declaration.reading import from_value, read
from stampworks.declaration.sound import part
from stampworks.jobs.forms import plain_name
from stampworks.jobs.model import JobFile

EXAMPLE = "nodes: 2\nrun: |\n  torchrun train.py"
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class JobSource:
    """A job with the positions of its values, and its problems."""

    sound: JobFile
    """The job without invalid values. Reading such a value raises AbsentError."""
    root: ValueNode
    folder: Path
    """The folder that its relative paths start from."""
    problems: tuple[Problem, ...] = ()

    def problem(self, path: str, message: str, hint: str = "") -> Problem:
        """Return a problem at the line of a field, or at the section that lacks it."""
        node, _ = find(self.root, parsed(path))
        return node.place.problem(path, message, hint)

    def knows(self, *names: str) -> bool:
        """Whether the values of these fields are sound."""
        try:
            for name in names:
                getattr(self.sound, name)
        except AbsentError:
            return False
        return True


def read_job(path: Path, over: Mapping[str, Any]) -> JobSource:
    """Read a job file. Options of the command line override it."""
    place = FilePosition(displayed(path))
    try:
        root = read(text_of(path, SUFFIXES), place.file)
    except UnreadableError as error:
        raise DeclarationError([place.problem("", str(error), error.hint)]) from None
    if root is None or not isinstance(root.value, dict):
        defects = root.defects if root else ()
        found = [each.place.problem("", each.message, each.hint) for each in defects]
        hint = f"write one, for example\n{EXAMPLE}"
        raise DeclarationError(found or [place.problem("", "a job file must be a mapping", hint)])
    return _judged(merged(root, from_value(over, COMMAND_LINE)), path.parent, plain_name(path.stem) or "job")


def read_command(command: Sequence[str], over: Mapping[str, Any], folder: Path) -> JobSource:
    """Make a job of a command and options; it has no lines."""
    name = plain_name(Path(command[0]).stem) if command else ""
    root = from_value({"run": join(command), **over}, COMMAND_LINE)
    return _judged(root, folder, name or "job")


def _judged(root: ValueNode, folder: Path, name: str) -> JobSource:
    known = fields(JobFile)
    problems = [
        defect.place.problem(spelled((*path, defect.key) if defect.key else path), defect.message, defect.hint)
        for path, node in walk(root)
        for defect in node.defects
    ]
    wrong = {path for path, node in walk(root) if isinstance(node.value, UnreadValue)}
    data = {"name": name, **plain(root)}
    job = None
    try:
        job = JobFile.model_validate(data)
    except ValidationError as error:
        found = explain.worth_saying(error.errors(), root, known)
        problems += [explain.problem(each, root, known) for each in found]
        wrong |= {each["loc"] for each in found} | explain.meant(found, known)
    if job is None or problems:
        job = part(data, frozenset(wrong), JobFile)
    return JobSource(job, root, folder, tuple(problems))
