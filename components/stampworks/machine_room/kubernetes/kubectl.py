"""Client of the server of a Kubernetes of the local cloud."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stampworks.machine_room import RoomError, daemons
from stampworks.machine_room.commands import ENVIRONMENT, last_lines
from stampworks.machine_room.errors import AGAIN
from stampworks.machine_room.programs import program
from stampworks.machine_room.room import Room

_TIMEOUT_S, _LOOK_S, _READY_S, _POLL_S = 300.0, 30.0, 150.0, 0.1
_APPLY = ("apply", "--server-side", "--force-conflicts", "--field-manager=stampworks")
Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Kubectl:
    """kubectl with the administrator's configuration of one cluster."""

    where: str
    """Name of the cluster in messages."""
    config: Path

    def until(self, room: Room, parts: Iterable[str], late: str, words: Iterable[str], text: str = "") -> None:
        """Repeat a request until it succeeds. Give up after the end of one of these daemons, or after a time limit."""
        parts, words, deadline = tuple(parts), tuple(words), time.monotonic() + _READY_S
        while (done := self._run(words, text, _LOOK_S)).returncode:
            gone = daemons.dead(room, parts)
            if gone or time.monotonic() > deadline:
                what = f"{gone[0]} has ended" if gone else f"{late} after {_READY_S:g} s"
                raise RoomError(self.where, what, daemons.last_words(room, gone[0]) if gone else _why(done), AGAIN)
            time.sleep(_POLL_S)

    def apply(self, what: str, objects: Iterable[Manifest]) -> None:
        """Apply these objects. Fields that others have set stay."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.said(what, [*_APPLY, "--filename=-"], text)

    def listed(self, what: str, *words: str) -> list[dict[str, Any]]:
        """Return the items of a list of objects. `what` names the request in errors."""
        found: list[dict[str, Any]] = json.loads(self.said(what, ["get", *words, "-o", "json"], limit_s=_LOOK_S))[
            "items"
        ]
        return found

    def said(self, what: str, words: Iterable[str], text: str = "", limit_s: float = _TIMEOUT_S) -> str:
        """Run kubectl and return its output. Raise RoomError with the reason if it fails."""
        done = self._run(words, text, limit_s)
        if done.returncode:
            raise RoomError(self.where, what, _why(done), AGAIN)
        return done.stdout

    def _run(self, words: Iterable[str], text: str, limit_s: float) -> subprocess.CompletedProcess[str]:
        argv = [*command(self.config), *words]
        try:
            return subprocess.run(
                argv,
                input=text,
                capture_output=True,
                text=True,
                timeout=limit_s,
                env=ENVIRONMENT,
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", f"its server does not answer within {limit_s:g} s")


def command(config: Path) -> tuple[str, ...]:
    """Return the start of a command for the server that a file names."""
    # a separate cache: kubectl's cached answers of this server are wrong for the next one at the same port
    return program("kubectl"), f"--kubeconfig={config}", f"--cache-dir={config.parent / 'run' / 'kubectl'}"


def _why(done: subprocess.CompletedProcess[str]) -> str:
    return last_lines(done.stderr) or f"kubectl ended with {done.returncode}"
