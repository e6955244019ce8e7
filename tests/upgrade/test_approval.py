"""A change that removes or loses something: a preview reports it, and an `up` waits for an approval.

The engine and the state of the stamped stack are real, but the cluster does not run, so that no `up` here may get
further than the program.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.changes.acceptance import VARIABLE, change_id
from stampworks.declaration import load_value
from stampworks.plan import Plan, fingerprint, settled, to_dict
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.stack import DECLARED, Stack

from tests.upgrade import record
from tests.upgrade.test_upgrade import load, without_looks

pytestmark = pytest.mark.engine

RECORDED = without_looks(load(record.LIVE))
DECLARED_THEN = RECORDED.config[DECLARED]
RENAMED = {**DECLARED_THEN, "name": "renamed"}
CLUSTER = "stampworks:cluster:Cluster"
ROLL = "stampworks:cluster:Roll"
ASKED = """\
1 change needs a person's yes:
  name: upgraded in the cluster, renamed in the declaration: data or state would be lost
"""


def planned(declared: Mapping[str, Any]) -> Plan:
    return settled(dataclasses.replace(planning.plan(load_value(declared, "test")), reasons=()))


@dataclass
class Stamped:
    """A stack stamped by today's version, with a program outside of a rehearsal."""

    engine: Engine
    program: Path

    def declare(self, declared: Mapping[str, Any], accepted: str = "") -> None:
        self.engine.configure({**RECORDED.config, DECLARED: declared})
        environment = f"os.environ.pop('STAMPWORKS_REHEARSAL')\nos.environ['{VARIABLE}'] = '{accepted}'\n"
        text = (record.CHECKOUT / "stacks" / "__main__.py").read_text()
        self.program.write_text(f"import os\n\n{environment}{text}")

    def refused(self) -> str:
        """Run an `up` that has to end before it changes anything; return the error."""
        ran = self.engine.run("up", "--yes", "--skip-preview")
        assert ran.code != 0, ran.said
        touched = {each["metadata"]["type"] for each in ran.of("resourcePreEvent")}
        assert touched <= {"pulumi:pulumi:Stack", "pulumi:providers:pulumi"}
        [error] = ran.errors
        return error

    def warnings(self) -> list[str]:
        return self.told("warning")

    def told(self, severity: str) -> list[str]:
        """Return the lasting messages of a preview."""
        ran = self.engine.run("preview")
        assert ran.code == 0, ran.said
        told = [
            each for each in ran.of("diagnosticEvent") if each["severity"] == severity and not each.get("ephemeral")
        ]
        return list(dict.fromkeys(str(each["message"]).strip() for each in told))


@pytest.fixture
def stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stamped]:
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("STAMPWORKS_CACHE", str(tmp_path / "cache"))
    project = record.program(tmp_path / "project")
    stack = Stack(RECORDED.name, project, project / "stacks", "stampworks", RECORDED.config, DECLARED_THEN)
    resources = [_with_plan(each) for each in RECORDED.deployment["resources"]]
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"version": 3, "deployment": {**RECORDED.deployment, "resources": resources}}))
    with record.engine(tmp_path, stack, live=True) as engine:
        engine.aside("stack", "import", "--file", str(state))
        yield Stamped(engine, project / "stacks" / "__main__.py")


def _with_plan(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    if resource["type"] == CLUSTER:
        return {**resource, "outputs": {**resource["outputs"], "fingerprint": fingerprint(planned(DECLARED_THEN))}}
    if resource["type"] != ROLL:
        return resource
    text = json.dumps(to_dict(planned(DECLARED_THEN)))
    return {**resource, **{side: {**resource[side], "plan": text} for side in ("inputs", "outputs")}}


def test_a_renamed_cluster_is_made_anew_with_a_yes_only(stamped: Stamped) -> None:
    """The error of an `up` is in its preview, with an id; only this id permits the `up`."""
    its_id = change_id(planned(DECLARED_THEN), planned(RENAMED))
    stamped.declare(RENAMED)
    [said] = stamped.warnings()
    assert said == f"{ASKED}  `pulumi up` refuses this; `{VARIABLE}={its_id} pulumi up` carries it out"
    to_go_on = f"to carry out this change and no other, run `{VARIABLE}={its_id} pulumi up`"
    assert stamped.refused() == f"{ASKED}  hint: nothing was changed; {to_go_on}"
    stamped.declare(RENAMED, accepted="000000000000")
    assert stamped.refused() == f"{ASKED}  hint: {VARIABLE} is 000000000000, another change; {to_go_on}"
    stamped.declare(RENAMED, accepted=its_id)
    assert stamped.warnings() == []


def test_each_change_says_what_it_does(stamped: Stamped) -> None:
    """All changes that need an approval are listed at once, and no others."""
    users = [{**DECLARED_THEN["users"][0], "uid": 2999}, *DECLARED_THEN["users"][1:]]
    pools = [{**DECLARED_THEN["pools"][0], "count": 1, "machine": "sim-a100-small"}, *DECLARED_THEN["pools"][1:]]
    stamped.declare({**DECLARED_THEN, "users": users, "pools": pools})
    asked, _, _ = stamped.refused().partition("  hint: ")
    assert asked.splitlines() == [
        "2 changes need a person's yes:",
        "  pool gpu machine: sim-h100 in the cluster, sim-a100-small in the declaration: removed and created again",
        "  user alice uid: 2001 in the cluster, 2999 in the declaration: data or state would be lost",
    ]


def test_a_preview_says_what_the_declaration_changes(stamped: Stamped) -> None:
    """The text is that of a review, next to the engine's property names."""
    pools = [{**DECLARED_THEN["pools"][0], "count": 3}, *DECLARED_THEN["pools"][1:]]
    stamped.declare({**DECLARED_THEN, "pools": pools})
    [told] = [each for each in stamped.told("info#err") + stamped.told("info") if each.startswith("Changes since")]
    assert told.splitlines() == [
        "Changes since the last `pulumi up`:",
        "  pools[gpu].count: 2 to 3 (in place)",
        "  No node restarts, 1 node joins.",
    ]


def test_other_changes_need_no_yes(stamped: Stamped) -> None:
    pools = [{**DECLARED_THEN["pools"][0], "count": 1}, *DECLARED_THEN["pools"][1:]]
    stamped.declare({**DECLARED_THEN, "pools": pools})
    assert stamped.warnings() == []
