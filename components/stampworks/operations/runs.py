"""The folders of runs, in the directory that all nodes share: what was asked for, what was said, what came of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stampworks.operations import on_head, remote
from stampworks.operations.errors import InputError, UnknownError
from stampworks.plan import Plan, Roster

_PROGRAM = Path(on_head.__file__).read_text()
_LIMIT_S = 30.0


def folder_of_all(plan: Plan) -> str:
    """Below the first declared storage."""
    if not plan.storage:
        what = f"cluster {plan.name} has no storage that all nodes see, and a run needs a folder there"
        raise InputError(what, "declare one: storage: [{name: shared, kind: directory, mount: /shared}]")
    return f"{plan.storage[0].mount}/runs"


def as_user(user: str, argv: list[str]) -> list[str]:
    """A login shell of the user: its environment, its groups, its home, and nothing of root's."""
    return ["runuser", "-l", user, "-c", shlex.join(argv)]


def look(roster: Roster, folder: str) -> dict[str, Any]:
    return _asked(roster, ["look", folder])


def all_runs(roster: Roster, folder: str) -> dict[str, Any]:
    return _asked(roster, ["runs", folder])


def follow(roster: Roster, folder: str, log: int, events: int) -> dict[str, Any]:
    return _asked(roster, ["follow", folder, str(log), str(events)])


def write(roster: Roster, runs: str, name: str, user: str, files: Mapping[str, str]) -> None:
    _asked(roster, ["make", runs])
    _asked(roster, ["write", f"{runs}/{name}"], user, json.dumps(files))


def _asked(roster: Roster, words: list[str], user: str = "root", given: str = "") -> dict[str, Any]:
    argv = as_user(user, ["python3", "-I", "-c", _PROGRAM, *words])
    answer = remote.ask(roster, remote.door(roster).name, argv, _LIMIT_S, given)
    try:
        found = json.loads(answer.splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnknownError("the head answered something else about runs", "look there: stampworks ssh head")
    return found
