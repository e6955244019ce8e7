"""Stacks of this repository in the real engine, without account or plugin; each once for all files that ask for it.

Files that share a rehearsal run in one process: `TOGETHER` in tests/conftest.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli.main import main
from stampworks.rehearsal.engine import Engine

ROOT = Path(__file__).parents[1]
NEUTRAL = ("kubernetes:", "stampworks:cluster:")
"""Beginnings of types that are the same on every cloud."""

Call = Mapping[str, Any]
"""A call of the engine to a provider: type, name, values."""


@dataclass(frozen=True)
class Rehearsed:
    """Result of one stack."""

    stack: str
    found: Mapping[str, Any]
    calls: tuple[Call, ...]
    """All calls, previews included, in their order."""
    made: tuple[Call, ...]
    """Resources that the first `up` asked the cloud for."""
    added: tuple[Call, ...]
    """Resources that changes made in addition, or again."""
    updated: tuple[Call, ...]
    """Updates of existing resources by changes, one after the other."""
    objects: tuple[Call, ...]
    """Objects that Kubernetes was given, by the first `up` or by a change."""
    state: str
    """State after the first `up`, as the engine wrote it."""

    def phase(self, name: str) -> Mapping[str, Any]:
        return next(each for each in self.found["phases"] if each["name"] == name)

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """The values of all of one type, by the end of its name."""
        return [each["values"] for each in self.made if each["type"].endswith(f":{kind}")]

    def updates(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the resources of one type after each of their updates."""
        return [each["values"] for each in self.updated if each["type"].endswith(f":{kind}")]

    def with_changes(self) -> Rehearsed:
        """The same, of what there is when all changes are made."""
        added = {(each["type"], each["name"]) for each in self.added}
        kept = [each for each in self.made if (each["type"], each["name"]) not in added]
        return replace(self, made=(*kept, *self.added))

    def template(self, group: str = "gpu") -> Mapping[str, Any]:
        """Return the template of a group's nodes on AWS."""
        [found] = [each for each in self.of("LaunchTemplate") if each["tags"]["stampworks:group"] == group]
        return found


Rehearse = Callable[..., Rehearsed]


def scenario_of(stack: str) -> Path:
    """Return the changes and failures of a stack while it is rehearsed."""
    [file] = (ROOT / "tests" / "clouds").glob(f"*/changes/{stack}.yaml")
    return file


def rehearsals(folders: pytest.TempPathFactory) -> Rehearse:
    """Return a function that rehearses a stack, with its own or other changes: the engine takes seconds."""
    if shutil.which("pulumi") is None:
        pytest.fail("no pulumi on PATH: . tools/env.sh")

    @functools.cache
    def call(stack: str, scenario: str = "") -> Rehearsed:
        folder = folders.mktemp(stack)
        record, out = folder / "record.jsonl", io.StringIO()
        if scenario:
            file = folder / "scenario.yaml"
            file.write_text(scenario)
        else:
            file = scenario_of(stack)
        options = ["--record", str(record), "--json", "--scenario", str(file)]
        with _states() as states, contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
            main(["rehearse", "-s", stack, *options])
        found = json.loads(out.getvalue())
        up = next(each for each in found["phases"] if each["name"] == "up")
        first = {(each["type"], each["name"]) for each in up["steps"]}
        calls = tuple(map(json.loads, record.read_text().splitlines()))
        made: dict[tuple[str, str], Any] = {}
        added: dict[tuple[str, str], Any] = {}
        updated: list[Any] = []
        for each in calls:
            if each["call"] == "Update" and not each["preview"]:
                updated.append(each)
            if each["call"] == "Create" and not each["preview"]:
                key = each["type"], each["name"]
                (made if key in first and key not in made else added)[key] = each
        objects = [each["values"] for key, each in (made | added).items() if key[0].startswith("kubernetes:core/")]
        return Rehearsed(
            stack, found, calls, _of_cloud(made), _of_cloud(added), tuple(updated), tuple(objects), states[0]
        )

    return call


def _of_cloud(calls: Mapping[tuple[str, str], Any]) -> tuple[Call, ...]:
    return tuple(calls[key] for key in sorted(calls) if not key[0].startswith(NEUTRAL))


@contextlib.contextmanager
def _states() -> Iterator[list[str]]:
    """Yield the contents of the backend, each time that a rehearsal asks for it."""
    asked, aside = list[str](), Engine.aside

    def kept(self: Engine, *words: str) -> str:
        said = aside(self, *words)
        if words == ("stack", "export"):
            asked.append(said)
        return said

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "aside", kept)
        yield asked
