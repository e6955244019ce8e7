"""State of a stack in Pulumi's backend, read without the passphrase: secrets stay encrypted."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stampworks.cli import stacks

TIMEOUT_S = 60.0


class SilentError(Exception):
    """The backend did not answer; the text is the reason, in one line."""


def resources(stack: str) -> Sequence[Mapping[str, Any]]:
    """All that was stamped, as `pulumi stack export` has it; nothing when there is no such stack yet."""
    with asking(stack) as answer:
        return answer()


@contextlib.contextmanager
def asking(stack: str) -> Iterator[Callable[[], Sequence[Mapping[str, Any]]]]:
    """The same for a caller with other work meanwhile: the engine is at work until its answer is called for."""
    command = ["pulumi", "stack", "export", "--non-interactive", "--stack", stack]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, cwd=stacks.project(), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    except FileNotFoundError:
        raise SilentError("pulumi is not installed, or `. tools/env.sh` was not called") from None
    with process:
        try:
            yield lambda: _answer(process)
        finally:
            process.kill()


def _answer(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise SilentError(f"pulumi did not answer within {TIMEOUT_S:.0f} s") from None
    said = stderr.decode(errors="replace").strip()
    if process.returncode:
        if "no stack named" in said:
            return []
        raise SilentError(said.splitlines()[-1] if said else f"pulumi ended with exit code {process.returncode}")
    return _resources(stdout)


def outputs(of: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """Return the outputs of the first resource of a type; None when there is none."""
    return next((each["outputs"] for each in of if each["type"] == kind), None)


def _resources(state: bytes) -> list[dict[str, Any]]:
    """Return the resources that have a type, each with outputs."""
    try:
        found = json.loads(state)["deployment"].get("resources") or []
        return [{**each, "type": str(each["type"]), "outputs": dict(each.get("outputs") or {})} for each in found]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise SilentError("the output of pulumi stack export is not a state") from None
