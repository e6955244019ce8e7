"""Single values of a job file: valid ones, and hints for others."""

from __future__ import annotations

import re
from typing import Annotated

from stampworks.declaration.forms import TextForm, wrong
from stampworks.declaration.wording import brief, shown

JOB_PATTERN = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"
TIME_PATTERN = r"^[1-9][0-9]{0,5}[smhd]$"
ARRAY_PATTERN = r"^[0-9]{1,6}-[0-9]{1,6}(%[1-9][0-9]{0,5})?$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
PATH_PATTERN = r"^[^\x00-\x1f\x7f]{1,4096}$"
TASKS_MAX = 1000
"""Slurm's own limit for an array, MaxArraySize, is 1001 unless its configuration says more."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def job_name(value: str) -> str:
    """Refuse a name that cannot be part of names in Slurm, Kubernetes and file systems."""
    if re.fullmatch(JOB_PATTERN, value):
        return value
    rule = "a name is 1 to 40 small letters, digits and '-', from a letter to a letter or digit"
    plain = plain_name(value)
    raise wrong(f"{shown(value)} is not a legal name of a job", f"{rule}, for example {plain}" if plain else rule)


def plain_name(text: str) -> str:
    """Return the legal name that is nearest to a text, or nothing."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-0123456789")[:40].rstrip("-")


def duration(value: str) -> str:
    """Refuse a time without a unit."""
    if not re.fullmatch(TIME_PATTERN, value):
        raise wrong(f"{shown(value)} is not a time", "write it like 90s, 30m, 4h or 2d")
    return value


def seconds(value: str) -> int:
    """Return the seconds of a legal time; 0 for none."""
    return int(value[:-1]) * _SECONDS[value[-1]] if value else 0


def array(value: str) -> str:
    """Refuse a range of tasks that ends before it begins, or has too many."""
    hint = "write the first and the last index, and how many run at a time: 0-9 or 0-9%2"
    if not re.fullmatch(ARRAY_PATTERN, value):
        raise wrong(f"{shown(value)} is not a range of tasks", hint)
    indexes = indexes_of(value)
    if not 0 < len(indexes) <= TASKS_MAX:
        raise wrong(f"{shown(value)} has {len(indexes)} tasks", f"an array has 1 to {TASKS_MAX} of them")
    return value


def indexes_of(value: str) -> range:
    """Return the indexes of a legal range of tasks."""
    first, last = value.partition("%")[0].split("-")
    return range(int(first), int(last) + 1)


def variable(value: str) -> str:
    """Refuse text that cannot be the name of a shell variable."""
    if not re.fullmatch(VARIABLE_PATTERN, value):
        raise wrong(f"{shown(value)} is not the name of a variable", "take letters, digits and '_', not a digit first")
    return value


def path(value: str) -> str:
    """Refuse control characters, which no path needs."""
    if not re.fullmatch(PATH_PATTERN, value):
        raise wrong(f"{shown(value)} is not a path", "name a file or a folder in one line")
    return value


def absolute(value: str) -> str:
    """Refuse a path that depends on the working directory; a path that begins with ~/ is in the user's home."""
    if not value.startswith(("/", "~/")) or ".." in value.split("/"):
        raise wrong(
            f"{brief(path(value))!r} is not an absolute path",
            "begin with a storage's mount, like /shared/run1, or with ~/",
        )
    return path(value)


JobName = Annotated[str, TextForm(job_name, JOB_PATTERN)]
Duration = Annotated[str, TextForm(duration, TIME_PATTERN)]
Array = Annotated[str, TextForm(array, ARRAY_PATTERN)]
Variable = Annotated[str, TextForm(variable, VARIABLE_PATTERN)]
LocalPath = Annotated[str, TextForm(path, PATH_PATTERN)]
AbsolutePath = Annotated[str, TextForm(absolute, PATH_PATTERN)]
