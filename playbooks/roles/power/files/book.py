"""Book of machines started for nodes: AWS may show one only later, and a program may end before it has named it.

One file beside Slurm's queue. Whoever has it open is alone: the three programs run whenever Slurm likes.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PAUSE_S_MAX = 900
"""However often there was nothing to be had, it is tried again after this time."""


class Book:
    def __init__(self, path: Path) -> None:
        self._path = path
        data = json.loads(path.read_text()) if path.exists() else {}
        self.machines: dict[str, dict[str, Any]] = data.get("machines", {})
        """Instance of each node, since when, and the template that it was started from, as far as that is known."""
        self.launches: dict[str, dict[str, Any]] = data.get("launches", {})
        """Launches without a known answer, by token: nodes, template and time."""
        self.pauses: dict[str, dict[str, Any]] = data.get("pauses", {})
        """Templates that are not tried for a while: the end of the pause, and its reason."""

    def asked(self, names: list[str], template: str) -> str:
        """Written down before it is asked for, so that nobody forgets it."""
        token = uuid.uuid4().hex
        self.launches[token] = {"names": names, "template": template, "since": time.time()}
        self.save()
        return token

    def answered(self, token: str, instances: list[str]) -> dict[str, str]:
        """The nodes that got an instance each."""
        asked = self.launches.pop(token)
        got = dict(zip(asked["names"], instances))  # noqa: B905 (Amazon Linux's own Python is 3.9)
        for name, id_ in got.items():
            self.machines[name] = {"instance": id_, "template": asked["template"], "since": time.time()}
        self.save()
        return got

    def pause(self, template: str, why: str, first_s: float) -> None:
        """Longer each time that there was nothing again."""
        pause_s = min(self.pauses.get(template, {"pause_s": first_s / 2})["pause_s"] * 2, PAUSE_S_MAX)
        self.pauses[template] = {"until": time.time() + pause_s, "pause_s": pause_s, "why": why}

    def became(self, name: str) -> None:
        """The machine is the node now: what its template was paused for before it was started is over."""
        row = self.machines[name]
        found = self.pauses.get(row.get("template", ""))
        if found and row["since"] > found["until"] - found["pause_s"]:
            del self.pauses[row["template"]]

    def paused(self, template: str) -> str:
        """Why it is not asked for now; empty when it is. A clock that was set makes no pause longer."""
        found = self.pauses.get(template)
        return found["why"] if found and 0 < found["until"] - time.time() <= found["pause_s"] else ""

    def save(self) -> None:
        beside = self._path.with_suffix(".new")
        text = json.dumps({"machines": self.machines, "launches": self.launches, "pauses": self.pauses}, indent=1)
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


@contextmanager
def opened(folder: str) -> Iterator[Book]:
    path = Path(folder)
    with (path / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        book = Book(path / "book.json")
        yield book
        book.save()


@contextmanager
def resuming(folder: str) -> Iterator[None]:
    """Whoever is in here has nodes to start, though nothing of it may be in the book yet. It ends with its process."""
    with (Path(folder) / "resuming").open("a") as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        yield


def is_resuming(folder: str) -> bool:
    """Whether anybody is in there: many may be, at once."""
    with (Path(folder) / "resuming").open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
