"""The command of a declaration that prints the machines of a cluster."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from stampworks.clouds.errors import UnansweredError
from stampworks.clouds.hosts.answers import plain

TIMEOUT_S = 60.0
BYTES_MAX = 4 << 20
MACHINES_MAX = 4096
FORM = 'it prints a machine a line, like {"address": "203.0.113.4", "inside": "10.0.0.4", "group": "gpu"}'
_LISTS = "stampworks.clouds.hosts.lists"

Entry = Mapping[str, Any]


class _List(Protocol):
    """A module of `lists`: the form in which a provider's own command prints machines."""

    machines: Callable[[list[Any]], Sequence[Entry]]


class ListError(UnansweredError):
    """A command that failed, or printed no list of machines."""

    def __init__(self, why: str, hint: str = FORM) -> None:
        super().__init__(why)
        self.hint = hint


def listed(command: Sequence[str], provider: str, folder: Path) -> list[Entry]:
    """Run the command in a folder, and return the machines that it prints, unchecked."""
    output = _run(command, folder)
    if output.lstrip().startswith("["):
        return _of_provider(output, provider)
    entries = [_entry(number, line) for number, line in enumerate(output.splitlines(), 1) if line.strip()]
    if not entries:
        raise ListError("it printed nothing")
    return _few(entries)


def _run(command: Sequence[str], folder: Path) -> str:
    run = f"`{' '.join(command)}`"
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ListError(f"{run} did not end within {TIMEOUT_S:.0f} s", "run it by hand in this folder") from None
    except OSError as error:
        hint = f"its path is seen from {folder}"
        raise ListError(f"{run} cannot be started: {error.strerror}", hint) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = f": {plain(lines[-1])}" if lines else ""
        raise ListError(f"{run} ended with exit code {done.returncode}{said}", "run it by hand in this folder")
    if len(done.stdout) > BYTES_MAX:
        raise ListError(f"{run} printed more than {BYTES_MAX >> 20} MiB")
    return done.stdout.decode(errors="replace")


def _entry(number: int, line: str) -> Entry:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise ListError(f"line {number} is not JSON: {plain(line, 60)}") from None
    if not isinstance(entry, dict):
        raise ListError(f"line {number} is not an object: {plain(line, 60)}")
    return entry


def _of_provider(output: str, provider: str) -> list[Entry]:
    """Return the machines of an array, which is the form of programs of providers."""
    name = f"{_LISTS}.{provider.replace('-', '_')}"
    if not provider or importlib.util.find_spec(name) is None:
        whose = f"of {provider}" if provider else "without hosts.provider"
        raise ListError(f"it printed an array, and no form {whose} is known", f"{FORM}; `jq -c '.[] | {{...}}'` helps")
    form: _List = importlib.import_module(name)
    try:
        data = json.loads(output)
        return _few(list(form.machines(data)))
    except (ValueError, RecursionError) as error:
        raise ListError(f"it printed no list of machines of {provider}: {plain(str(error))}") from None


def _few(entries: list[Entry]) -> list[Entry]:
    if len(entries) > MACHINES_MAX:
        raise ListError(f"it printed more than {MACHINES_MAX} machines")
    return entries
