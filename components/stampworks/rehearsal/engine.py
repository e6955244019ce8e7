"""The real engine with a separate home. Of the user's files it runs only the project's program."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stampworks.rehearsal.stack import Stack

LIMIT_S = 1800
_INTERRUPT_S = 10.0


class EngineError(Exception):
    """The engine failed at a step that the rehearsal did not mean to fail."""


REFUSED = "rehearsed: "
"""Start of the errors of a rehearsed cloud."""


@dataclass(frozen=True)
class Ran:
    """A run of the engine."""

    code: int
    events: Sequence[Mapping[str, Any]]
    said: str

    def of(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """Yield the events of one kind."""
        return (event[kind] for event in self.events if kind in event)

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the errors of the run, each once."""
        said = [str(each["message"]).strip() for each in self.of("diagnosticEvent") if each.get("severity") == "error"]
        return tuple(dict.fromkeys(each for each in said if each not in ("preview failed", "update failed")))

    @property
    def refused_by(self) -> str:
        """Return the part that refused.

        Errors about a resource come with its URN. Errors of the program have none. A cloud refuses only while an `up`
        is at work.
        """
        of_resources = [
            each for each in self.of("diagnosticEvent") if each.get("severity") == "error" and each.get("urn")
        ]
        if any(each.startswith(REFUSED) for each in self.errors):
            return "the cloud, half-way"
        return "the stack's own program" if self.errors and not of_resources else "the engine"


@dataclass(frozen=True)
class State:
    """The state file of the stack."""

    resources: Sequence[Mapping[str, Any]]
    """Resources, without providers."""
    pending: Sequence[str]
    """URNs of the resources that were being created when the engine was killed."""


class Engine:
    """A stack with a private home, backend and passphrase below a folder."""

    def __init__(self, folder: Path, stack: Stack, ports: Mapping[str, int]) -> None:
        self._folder, self._stack = folder, stack
        self._running: subprocess.Popen[str] | None = None
        self._session = -1
        """Session of the last run."""
        self._starting = threading.Lock()
        """Lock between start and kill: a kill must not hit the next run, which starts as soon as the first is dead."""
        for name in ("home", "backend", "project"):
            (folder / name).mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
        self._environment = {
            **kept,
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "STAMPWORKS_REHEARSAL": "true",  # cluster/clouds.py: a cloud that cannot be stamped yet can be rehearsed
            "PULUMI_DEBUG_COMMANDS": "true",  # the log of events is an option of these
            "PULUMI_DEBUG_PROVIDERS": ",".join(f"{name}:{port}" for name, port in ports.items()),
        }
        # `stack init` writes a salt into the stack's file, so give it a project of its own with the same name.
        project = {"name": stack.project_name, "runtime": "python"}
        (folder / "project" / "Pulumi.yaml").write_text(json.dumps(project))
        self._file = folder / "project" / f"Pulumi.{stack.name}.yaml"
        self.aside("stack", "init")
        self._salt = self._file.read_text()
        self.configure(stack.config)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Set the stack's configuration for the next runs. JSON is valid YAML, and Pulumi takes dates as text."""
        self._file.write_text(f"{self._salt}config: {json.dumps(config, default=str)}\n")

    def run(self, verb: str, *options: str) -> Ran:
        """Run a command of the engine on the user's project."""
        log = self._folder / "events"
        log.unlink(missing_ok=True)
        code, said = self._call(
            [verb, "--stack", self._stack.name, "--config-file", str(self._file), "--event-log", str(log), *options],
            self._stack.project,
        )
        events = [json.loads(line) for line in _lines(log)]
        begun = max((number for number, event in enumerate(events) if "preludeEvent" in event), default=0)
        return Ran(code, events[begun:], said)  # the events of the run, without those of its preview

    def aside(self, *words: str) -> str:
        """Run a command that needs no program."""
        code, said = self._call([*words, "--stack", self._stack.name], self._file.parent)
        if code:
            raise EngineError(f"pulumi {' '.join(words)} ended with {code}:\n{said}")
        return said

    def state(self) -> State:
        """Return the state in the backend."""
        found: dict[str, Any] = json.loads(self.aside("stack", "export"))["deployment"]
        resources = found.get("resources") or []
        pending = found.get("pending_operations") or []
        return State(
            [each for each in resources if not each["type"].startswith("pulumi:providers:")],
            [each["resource"]["urn"] for each in pending],
        )

    def kill(self) -> None:
        """End the engine as a crash of its machine would. Any thread may call this."""
        with self._starting:
            if self._running:
                self._running.kill()
                self.end()  # a language host would keep the pipe open

    def end(self) -> None:
        """End the processes that a run has left, such as language hosts of a killed engine.

        Return when they are gone, so that none still writes into a folder that is about to be removed.
        """
        mark = f"PULUMI_HOME={self._environment['PULUMI_HOME']}".encode()
        deadline = time.monotonic() + _INTERRUPT_S
        while (left := _left(mark, self._session)) and time.monotonic() < deadline:
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.01)

    def _call(self, words: Sequence[str], folder: Path) -> tuple[int, str]:
        command = ["pulumi", *words, "--non-interactive", "--color", "never"]
        try:
            with self._starting:
                # Use a session of its own, so that Ctrl-C reaches the process once.
                process = self._running = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
                self._session = process.pid
        except FileNotFoundError:
            raise EngineError(
                "pulumi is not on PATH\n  hint: install it, or in a clone: make prepare, then . tools/env.sh"
            ) from None
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise EngineError(f"pulumi {words[0]} did not end within {LIMIT_S} s") from None
        except (KeyboardInterrupt, SystemExit):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_INTERRUPT_S)
            raise
        finally:
            self._running = None
            self.end()
            process.wait()
        return process.returncode, said


def _lines(log: Path) -> list[str]:
    """Return the complete lines. A killed engine leaves half a line."""
    if not log.exists():
        return []
    return [line for line in log.read_text(errors="replace").splitlines() if line.endswith("}")]


def _left(mark: bytes, session: int) -> list[int]:
    """Return the processes of a session, and those with this mark in their environment.

    A process that is just executing another program shows no environment. One that leaves the session keeps its
    environment.
    """
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone by now, or another user's
            state, _, _, its = file.read_text(errors="replace").rpartition(")")[2].split()[:4]
            told = int(its) == session or mark in file.with_name("environ").read_bytes().split(b"\0")
            if told and state != "Z":
                found.append(int(file.parent.name))
    return found
