"""Steps from the engine's events and state."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.rehearsal.engine import Ran
from stampworks.rehearsal.result import CriticalPath, Phase, Rehearsal, ResourceStep, Why
from stampworks.rehearsal.steps import changes, creations, critical_path, kinds, outputs, steps, unruled
from stampworks.rehearsal.text import rehearsal_text

A, B, C, D = (f"urn:pulumi:dev::trial::x:y:{kind}::{kind.lower()}" for kind in "ABCD")


def resource(urn: str, *after: str, **properties: list[str]) -> dict[str, Any]:
    token = urn.split("::")[2]
    return {"urn": urn, "type": token, "custom": True, "dependencies": [*after], "propertyDependencies": properties}


def test_the_longest_chain_counts_seconds_first_and_then_creations() -> None:
    state = [resource(A), resource(B, A), resource(C, p=[A]), resource(D, B, C)]
    assert critical_path(state, {"x:y:C": 5.0}) == CriticalPath(
        ("x:y:A a", "x:y:C c", "x:y:D d"), 5.0, ("x:y:A a", "x:y:D d")
    )
    assert critical_path(state, {}).unknown == critical_path(state, {}).resources
    assert critical_path([], {}) == CriticalPath((), 0.0, ())


def event(op: str, urn: str, **detailed: str) -> dict[str, Any]:
    diff = {path: {"diffKind": kind} for path, kind in detailed.items()}
    metadata: dict[str, Any] = {
        "op": op,
        "urn": urn,
        "type": urn.split("::")[2].split("$")[-1],
        "detailedDiff": diff or None,
    }
    metadata["new"] = {"custom": "component" not in urn}
    return {"resOutputsEvent": {"metadata": metadata}}


def test_steps_are_told_once_with_their_reasons() -> None:
    subnet = "urn:pulumi:dev::trial::x:y:P$aws:ec2/subnet:Subnet::net"
    ran = Ran(
        0,
        [
            event("same", A),
            event("create", B),
            event("create", B),
            event("replace", subnet, cidrBlock="update-replace", tags="update"),
            event("create-replacement", subnet),
            event("create", "urn:pulumi:dev::trial::pulumi:providers:x::default"),
            {"summaryEvent": {"resourceChanges": {"same": 3, "create": 1, "replace": 2}}},
        ],
        "",
    )
    made, replaced = steps(ran)
    assert made == ResourceStep("create", "x:y:B", "b")
    assert (replaced.op, replaced.name) == ("replace", "net")
    assert [(why.path, why.replaces) for why in replaced.why] == [("cidrBlock", True), ("tags", False)]
    assert "as documented, not observed: https://github.com/hashicorp/" in replaced.why[0].source
    assert changes(ran) == 3


def test_components_and_what_is_looked_up_are_no_creations() -> None:
    """The k-th creation has this number in the list."""
    events = [event("create", f"{A}-component"), event("read", C), event("create", B), event("create", D)]
    ran = Ran(0, events, "")
    assert creations(ran) == (B, D)
    assert [step.name for step in steps(ran) if step.counted] == ["b", "d"]
    phase = Phase("up", "pass", "2 created", steps(ran))
    lines = rehearsal_text(Rehearsal("dev", {}, (phase,), CriticalPath((), 0, ()), ())).splitlines()
    assert [line.removeprefix("rehearsed: ").split() for line in lines if "x:y:" in line] == [
        ["create", "x:y:A", "a-component"],
        ["read", "x:y:C", "c"],
        ["1", "create", "x:y:B", "b"],
        ["2", "create", "x:y:D", "d"],
    ]


def test_a_failure_names_what_it_met() -> None:
    phases = tuple(
        Phase("failure: quota at x", "pass", "fine", met=met) for met in ((), ("a:B c",), ("a:B c", "d", "e"))
    )
    lines = rehearsal_text(Rehearsal("dev", {}, phases, CriticalPath((), 0, ()), ())).splitlines()
    assert lines[2:5] == [
        "rehearsed: PASS failure: quota at x: fine",
        "rehearsed: PASS failure: quota at x (a:B c): fine",
        "rehearsed: PASS failure: quota at x (a:B c and 2 more): fine",
    ]


def test_deletions_are_counted_by_kind() -> None:
    state = [resource(A), resource(f"{A}2", A), resource(B, A), resource(C, B), resource(D)]
    assert kinds(state, [state[0], state[4], state[1], state[3]]) == "1 C, 2 A, 1 D"


@pytest.mark.parametrize(
    ("urns", "who"),
    [
        ([None], "the stack's own program"),
        ([A], "the engine"),
        ([A, None], "the engine"),
        ([], "the engine"),
    ],
)
def test_refusing_party_is_read_from_the_error(urns: list[str | None], who: str) -> None:
    errors = [
        {"diagnosticEvent": {"severity": "error", "message": "no", **({"urn": urn} if urn else {})}} for urn in urns
    ]
    assert Ran(1, errors, "").refused_by == who


def test_notes_precede_the_verdict() -> None:
    path, rules = CriticalPath((), 0, ()), ("image.locked", "image.prepared")
    found = Rehearsal("dev", {}, (), path, (), types_never_met=("x:y:Z",), rules_passed_over=rules)
    assert rehearsal_text(found).splitlines()[-3:] == [
        "rehearsed: never met: x:y:Z: the stack has none, so that its entries in the scenario have no effect",
        "rehearsed: an `up` of this stack would stop now at image.locked, image.prepared: "
        "`stampworks plan -s dev` shows remedies",
        "rehearsed: verdict: pass",
    ]


def test_secret_outputs_are_left_out() -> None:
    """The engine encrypts and marks them in the state."""
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:abc"}
    stack = {"type": "pulumi:pulumi:Stack", "outputs": {"head": "10.0.0.1", "inventory": secret}}
    assert outputs([resource(A), stack]) == {"head": "10.0.0.1"}
    assert outputs([{"type": "pulumi:pulumi:Stack"}]) == {}


def test_types_without_a_rule_are_told() -> None:
    own = "urn:pulumi:dev::trial::stampworks:cluster:Roster::r"
    assert unruled([resource(A), resource(B), resource(A), resource(own)]) == ("x:y:A", "x:y:B")


def test_every_line_says_that_it_was_rehearsed_and_none_moves_the_cursor() -> None:
    """Messages of the engine may hold anything."""
    step = ResourceStep(
        "replace", "x:y:A", "a", (Why("size", True, "as documented, not observed: url"), Why("b", False, ""))
    )
    phase = Phase("change: \x1b[2J", "fail", "refused", (step,), ("first\nsecond \x1b[1A",))
    path = CriticalPath(("x:y:A a",), 0.0, ("x:y:A a",))
    told = {"use": "run \x1b[2J", "nodes": 2, "mounts": {"/data": "fs-1:/"}}
    lines = rehearsal_text(Rehearsal("dev", {"aws": "7"}, (phase,), path, ("x:y:A",), told)).splitlines()
    assert all(line.startswith("rehearsed: ") for line in lines)
    assert not [line for line in lines if "\x1b" in line]
    assert "rehearsed: FAIL change: \\x1b[2J: refused" in lines
    assert "rehearsed:        replaced because of size, as documented, not observed: url" in lines
    assert "rehearsed:        because of b; no rule says whether that replaces" in lines
    unknown = "1 creations, one after the other; durations: of a scenario can set their seconds:"
    assert f"rehearsed: critical path: {unknown}" in lines
    said = [line.removeprefix("rehearsed: output ") for line in lines if " output " in line]
    assert said == ["use: run \\x1b[2J", "nodes: 2", 'mounts: {"/data": "fs-1:/"}']
    assert lines[-1] == "rehearsed: verdict: fail"
