"""State of a stack in Pulumi's backend, read without the passphrase: secrets stay encrypted."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stampworks.cli import stacks

TIMEOUT_S = 60.0
_NO_STATE = "the output of pulumi stack export is not a state"
_FOLDER = "file://"
_UPDATES_MAX = 50
"""Updates to look back at. Each has a file with the whole state after it."""


class SilentError(Exception):
    """The backend did not answer; the text is the reason, in one line."""


def resources(stack: str) -> Sequence[Mapping[str, Any]]:
    """Return all stamped resources, as `pulumi stack export` has them; nothing if the stack does not exist yet."""
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
    try:
        return _resources(json.loads(stdout))
    except (ValueError, RecursionError):
        raise SilentError(_NO_STATE) from None


def earlier(now: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the resources of the same stack after each of its last updates, latest first.

    A backend in a folder keeps them in files. Raise SilentError for any other backend.
    """
    url = os.environ.get("PULUMI_BACKEND_URL", "")
    if not url.startswith(_FOLDER):
        raise SilentError("PULUMI_BACKEND_URL names no folder (file://) with earlier states")
    stack, project = str(now[0]["urn"]).removeprefix("urn:pulumi:").split("::")[:2]
    kept = Path(url.removeprefix(_FOLDER)).expanduser() / ".pulumi" / "history" / project / stack
    for file in sorted(kept.glob("*.checkpoint.json"), reverse=True)[:_UPDATES_MAX]:
        with contextlib.suppress(OSError, SilentError, ValueError, LookupError, TypeError, RecursionError):
            yield _resources({"deployment": json.loads(file.read_bytes())["checkpoint"]["latest"]})


def outputs(of: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """Return the outputs of the first resource of a type; None when there is none."""
    return next((each["outputs"] for each in of if each["type"] == kind), None)


def _resources(state: Any) -> list[dict[str, Any]]:
    """Return the resources that have a type, each with outputs."""
    try:
        found = state["deployment"].get("resources") or []
        return [{**each, "type": str(each["type"]), "outputs": dict(each.get("outputs") or {})} for each in found]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise SilentError(_NO_STATE) from None
