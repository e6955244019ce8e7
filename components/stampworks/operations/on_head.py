"""Work with folders of runs on a node that mounts them.

Standard library only: it is sent there unchanged.

    python3 -c THIS VERB FOLDER [...]

Folders may belong to any user: nothing in here follows a link in the place of a file.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

RUNS_MAX = 1000
"""The newest are listed."""
CHUNK_BYTES = 1 << 18
"""Bytes that are read at a time."""
TEXT_BYTES = 1 << 22
NODES_MAX = 1000
TAIL_BYTES = 1 << 16
RUN, LOG, EVENTS, EXIT = "run.json", "log", "events.jsonl", "exit"


def read(path: Path, start: int = 0, limit: int = TEXT_BYTES) -> bytes:
    """Return a part of a plain file; nothing if it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        file.seek(start if start >= 0 else max(0, os.fstat(descriptor).st_size + start))
        return file.read(limit)


def parsed(text: bytes) -> Any:
    """Return the value of JSON text; None if it is not valid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def look(folder: Path) -> dict[str, Any]:
    """Return the options of a run, if there is one."""
    found = _ended(folder)
    ended = isinstance(found["last"], dict) and found["last"].get("what") == "end"
    lost = [] if ended else _lost(folder)
    return {"there": folder.is_dir(), "run": parsed(read(folder / RUN)), "lost": lost, **found}


def _ended(folder: Path) -> dict[str, Any]:
    lines = read(folder / EVENTS, -TAIL_BYTES, TAIL_BYTES).splitlines()
    tasks = {path.name.removeprefix(f"{EXIT}-"): code(path) for path in folder.glob(f"{EXIT}-*")}
    known = {task: found for task, found in tasks.items() if task.isdecimal() and found is not None}
    exit_code = code(folder / EXIT) if not known else max(known.values())
    return {"last": parsed(lines[-1]) if lines else None, "exit": exit_code, **({"tasks": known} if known else {})}


def code(file: Path) -> int | None:
    """The exit code that a file has."""
    text = read(file, 0, 16).strip()
    return int(text) if text.isdigit() else None


def _lost(folder: Path) -> list[str]:
    """Nodes that a run has lost since it was started last."""
    names: list[str] = []
    for line in read(folder / EVENTS, -TEXT_BYTES).splitlines():
        if b'"what": "start"' in line:
            names = []
        elif b'"what": "failure"' in line and isinstance(event := parsed(line), dict) and event.get("kind") == "node":
            names += str(event.get("node", "")).split(", ")
    return sorted({name for name in names if name})[:NODES_MAX]


def make(runs: Path) -> dict[str, Any]:
    """Create the folder of all runs; each user may change only their own."""
    if not runs.is_dir():
        runs.mkdir(parents=True, exist_ok=True)
        runs.chmod(0o1777)
    return {}


def write(folder: Path, files: dict[str, str]) -> dict[str, Any]:
    """Write each file completely or not at all, and only into the user's own folder."""
    folder.mkdir(exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        sys.exit(f"{folder} belongs to another user")
    for name, text in files.items():
        draft = folder / f".{name}.draft"
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        draft.replace(folder / name)
    return {}


def runs(folder: Path) -> dict[str, Any]:
    """All runs by name, the newest of them."""
    found = []
    for entry in os.scandir(folder) if folder.is_dir() else ():
        if entry.is_dir(follow_symlinks=False):
            found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
    names = [name for _, name in sorted(found, reverse=True)[:RUNS_MAX]]
    return {"runs": {name: look(folder / name) for name in names}, "left_out": len(found) - len(names)}


def follow(folder: Path, log: int, events: int) -> dict[str, Any]:
    """Return new text of log and events since these positions; whole lines of the log, if there are any."""
    said, told = read(folder / LOG, log, CHUNK_BYTES), read(folder / EVENTS, events, CHUNK_BYTES)
    more = CHUNK_BYTES in (len(said), len(told))
    said = said if len(said) < CHUNK_BYTES else said[: said.rfind(b"\n") + 1] or said
    told = told[: told.rfind(b"\n") + 1] or (told if len(told) == CHUNK_BYTES else b"")
    return {
        "log": said.decode(errors="replace"),
        "log_next": log + len(said),
        "events": told.decode(errors="replace"),
        "events_next": events + len(told),
        "more": more and bool(said or told),
        **_ended(folder),
    }


def main(verb: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run the verb and return the answer."""
    if verb == "write":
        return write(folder, json.load(sys.stdin))
    if verb == "follow":
        return follow(folder, int(more[0]), int(more[1]))
    return {"look": look, "make": make, "runs": runs}[verb](folder)


if __name__ == "__main__":
    try:
        print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
