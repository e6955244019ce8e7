"""Records of training runs in the directory that all nodes share, read on the head.

A run's folder belongs to its user. Its content is read as a file of bounded size or not at all: no link is followed,
and no pipe is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from stampworks.operations import jobs, remote, runs
from stampworks.operations.errors import InputError, UnknownError, nearest
from stampworks.plan import Plan, Roster

NEWEST_MAX = 20
"""Limit if no run is named."""
BYTES_MAX = 2 << 20
_TIMEOUT_S = 60.0
# The script prints a JSON object: names of all runs, and the records of the requested ones; by default the newest.
_READ = """
import json, os, stat, sys
most, size, folder, wanted = json.loads(sys.argv[1])
found, told = [], {}
try:
    entries = [each for each in os.scandir(folder) if each.is_dir(follow_symlinks=False)]
except FileNotFoundError:
    entries = []
for entry in entries:
    try:
        found.append((os.stat(os.path.join(entry.path, "record.json")).st_mtime, entry.name, entry.path))
    except OSError:
        if entry.name in wanted:
            told[entry.name] = {"why": "it has left no record yet: it goes on, or was killed"}
found.sort(reverse=True)
for _, name, path in [each for each in found if each[1] in wanted] if wanted else found[:most]:
    try:
        handle = os.open(os.path.join(path, "record.json"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(0, "it is no file")
            told.setdefault(name, {"text": file.read(size + 1).decode(errors="replace")})
    except OSError as error:
        told.setdefault(name, {"why": error.strerror})
print(json.dumps({"names": sorted({name for _, name, _ in found}), "told": told}))
"""


@dataclass(frozen=True)
class Found:
    """Return the text of a run's record, or why there is none."""

    name: str
    text: str
    why: str = ""


def records(plan: Plan, roster: Roster, names: Sequence[str] = ()) -> tuple[Found, ...]:
    """Return the records of the named runs, or the newest of all. A name without a run is an error."""
    for name in names:
        if not re.fullmatch(jobs.NAME_PATTERN, name):
            raise InputError(f"{name!r} is not the name of a run", "stampworks jobs lists them")
    told = json.dumps([NEWEST_MAX, BYTES_MAX, runs.folder_of_all(plan), [*names]])
    head = remote.head(roster).name
    answer = remote.ask(roster, head, ["python3", "-c", _READ, told], _TIMEOUT_S)
    known, found = _understood(answer, head)
    for name in names:
        if name not in known and name not in {each.name for each in found}:
            raise InputError(f"no run of cluster {plan.name} is called {name!r}", nearest(name, known))
    return found


def _understood(answer: str, head: str) -> tuple[list[str], tuple[Found, ...]]:
    try:
        said = json.loads(answer)
        known = [str(name) for name in said["names"]]
        told = {str(name): dict(each) for name, each in said["told"].items()}
        found = tuple(Found(name, str(each.get("text", "")), str(each.get("why", ""))) for name, each in told.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UnknownError(f"{head}: its list of runs cannot be read", f"look: stampworks ssh {head}") from None
    return known, found
