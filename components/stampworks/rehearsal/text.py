"""A rehearsal as text, with a mark on every line."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator

from stampworks.rehearsal.result import CriticalPath, Phase, Rehearsal, ResourceStep, Why
from stampworks.text.printable import printable

_SIGN = "rehearsed: "


def rehearsal_text(found: Rehearsal) -> str:
    """Return the whole result; each line begins with a mark that says it is a rehearsal."""
    return "".join(f"{_SIGN}{printable(line)}\n" for line in _lines(found))


def _lines(found: Rehearsal) -> Iterator[str]:
    packages = ", ".join(f"{name} {version}" for name, version in sorted(found.packages.items()))
    yield f"stack {found.stack} in the real engine; no account was asked, nothing was created"
    yield f"providers: stampworks{f', {packages}' if packages else ''}"
    for phase in found.phases:
        yield f"{_mark(phase)} {phase.name}{_met(phase)}: {phase.found}"
        if phase.name != "preview" and phase.name != "destroy":
            numbers = itertools.count(1)
            for step in phase.steps:
                yield f"  {next(numbers) if step.counted else '':3}  {step.op:8} {step.type} {step.name}"
                yield from _reasons(step)
        for note in phase.notes:
            yield from (f"     {line}" for line in note.splitlines())
    path = found.critical_path
    yield f"critical path: {_takes(path)}:"
    yield from (f"     {each}{' (unknown)' if each in path.unknown else ''}" for each in path.resources)
    for name, value in found.outputs.items():
        yield f"output {name}: {value if isinstance(value, str) else json.dumps(value)}"
    for token in found.types_without_rule:
        yield f"no rule: {token}: its outputs, reasons of replacement and duration are not known"
    for token in found.types_never_met:
        yield f"never met: {token}: the stack has none, so that its entries in the scenario have no effect"
    if found.rules_passed_over:
        rules = ", ".join(found.rules_passed_over)
        yield f"an `up` of this stack would stop now at {rules}: `stampworks plan -s {found.stack}` shows remedies"
    yield f"verdict: {found.verdict}"


def _mark(phase: Phase) -> str:
    return {"pass": "PASS", "fail": "FAIL", "unknown": "UNKNOWN"}[phase.verdict]


def _takes(path: CriticalPath) -> str:
    number, unknown = len(path.resources), len(path.unknown)
    if number and number == unknown:
        return f"{number} creations, one after the other; durations: of a scenario can set their seconds"
    more = f", and {unknown} of unknown duration" if unknown else ""
    return f"{path.seconds:g} s{more}, over {number} creations"


def _met(phase: Phase) -> str:
    """Return the first resource that met a failure, and the number of others."""
    if not phase.met:
        return ""
    more = f" and {len(phase.met) - 1} more" if phase.met[1:] else ""
    return f" ({phase.met[0]}{more})"


def _reasons(step: ResourceStep) -> Iterator[str]:
    """Yield each reason once. If it is the same for many entries, it is about the list."""
    alike = Counter(_ENTRY.sub("[]", why.path) for why in step.why)
    shown = {
        (folded := _ENTRY.sub("[]", why.path)): (why, why.path if alike[folded] == 1 else folded) for why in step.why
    }
    yield from (_reason(why, path) for why, path in shown.values())


_ENTRY = re.compile(r"\[[0-9]+\]")


def _reason(why: Why, path: str) -> str:
    if not why.source:
        return f"       because of {path}; no rule says whether that replaces"
    if why.replaces:
        return f"       replaced because of {path}, {why.source}"
    return f"       because of {path}"
