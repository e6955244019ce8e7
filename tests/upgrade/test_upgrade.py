"""An `up` of this version on a stack stamped by an earlier version replaces no group and rolls no node. record.py
recorded the states at the last commit of the earlier version.

A change with other effects extends the lists here on purpose, with the reason, and the changelog describes the next
`up`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from stampworks import configuration, planning
from stampworks.clouds.local import renewal
from stampworks.declaration import load_value
from stampworks.machine_room import processes
from stampworks.rehearsal.stack import DECLARED, Stack

from tests.upgrade import record

pytestmark = pytest.mark.engine

MAY_UPDATE: Mapping[str, Mapping[str, str]] = {
    "stampworks:cluster:Playbook": {
        "digest": "the playbook runs again, with this version's roles",
        "inventory": "it is told what users and their jobs get: homes, keys, an environment",
    },
    "aws:iam/rolePolicy:RolePolicy": {"policy": "the flow log's role has the actions that AWS lists as the least"},
    "stampworks:cluster:Qualification": {"programs": "this version's programs measure once"},
    "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy": {"spec": "its refusals have other words"},
    "kubernetes:rbac.authorization.k8s.io/v1:Role": {"rules": "users submit by themselves"},
}
"""Properties with allowed updates, by type, and their effect."""
MAY_COME: Mapping[str, str] = {
    "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy": "users of a team are held apart",
    "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding": "the same",
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole": "users see nodes and quotas",
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding": "the same",
}
"""Types of which an `up` may create more, and the reason."""
MAY_COME_AND_GO = frozenset({"pulumi:providers:stampworks", "pulumi:providers:pulumi"})
"""Names in a state contain the plugin's version; the engine itself knows the stamped one."""
GROUPS = {
    "local": ("stampworks:local:LocalGroup", 4),
    "aws-dev-g6": ("aws:autoscaling/group:Group", 1),
    "aws-p5en-eks": ("aws:eks/nodeGroup:NodeGroup", 2),
}
"""The type of the groups in each recorded state, and their number."""


@dataclass(frozen=True)
class Recorded:
    """A state as record.py has written it."""

    name: str
    config: Mapping[str, Any]
    deployment: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def types(self) -> dict[str, str]:
        """The type of each resource, by URN."""
        return {one["urn"]: one["type"] for one in self.deployment["resources"]}


@dataclass(frozen=True)
class Step:
    """A resource in a preview."""

    op: str
    type: str
    urn: str
    properties: frozenset[str]
    """Return the differing properties, without their content."""

    @property
    def is_allowed(self) -> bool:
        if self.op == "update":
            return bool(self.properties) and self.properties <= MAY_UPDATE.get(self.type, {}).keys()
        if self.op == "create" and self.type in MAY_COME:
            return True
        return self.op == "same" or (self.op in ("create", "delete") and self.type in MAY_COME_AND_GO)


def load(name: str) -> Recorded:
    found = json.loads(gzip.decompress((record.RECORDED / f"{name}.json.gz").read_bytes()))
    return Recorded(found["name"], found["config"], found["deployment"], found["files"])


Preview = Callable[[Recorded], list[Step]]


@pytest.fixture
def preview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Preview:
    """Preview today's program on a recorded state, in a separate backend."""
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("STAMPWORKS_CACHE", str(tmp_path / "cache"))

    def call(recorded: Recorded) -> list[Step]:
        declared = recorded.config[DECLARED]
        project = record.program(tmp_path / "project")
        stack = Stack(recorded.name, project, project / "stacks", "stampworks", recorded.config, declared)
        state = tmp_path / "state.json"
        state.write_text(json.dumps({"version": 3, "deployment": recorded.deployment}))
        with record.engine(tmp_path, stack, live=recorded.name == record.LIVE) as engine:
            engine.aside("stack", "import", "--file", str(state))
            ran = engine.run("preview")
        assert ran.code == 0, ran.said
        steps = [_step(event["metadata"]) for event in ran.of("resourcePreEvent")]
        return [step for step in steps if step.op != "refresh"]  # a look, before the step itself

    return call


def _step(metadata: Mapping[str, Any]) -> Step:
    paths = [*(metadata.get("detailedDiff") or {}), *(metadata.get("diffs") or ())]
    properties = frozenset(path.replace("[", ".").split(".")[0] for path in paths)
    return Step(metadata["op"], metadata["type"], metadata["urn"], properties)


def without_looks(recorded: Recorded) -> Recorded:
    """Let the engine trust the state: no machine room exists that a refresh could read."""
    resources = [
        {key: value for key, value in one.items() if key != "refreshBeforeUpdate"}
        for one in recorded.deployment["resources"]
    ]
    return replace(recorded, deployment={**recorded.deployment, "resources": resources})


@pytest.mark.parametrize("name", [record.LIVE, *record.REHEARSED])
def test_an_up_replaces_no_group(name: str, preview: Preview) -> None:
    recorded = load(name)
    steps = preview(without_looks(recorded) if name == record.LIVE else recorded)
    assert [step for step in steps if not step.is_allowed] == []
    kind, count = GROUPS[name]
    assert [step.op for step in steps if step.type == kind] == ["same"] * count
    assert {step.urn for step in steps} >= {urn for urn, kind in recorded.types.items() if kind not in MAY_COME_AND_GO}


def test_an_up_rolls_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roll reads the settings of each disk from the room, and renews nodes with other settings."""
    recorded = load(record.LIVE)
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path))
    this = processes.identify(os.getpid())
    assert this is not None
    assert len(recorded.files) == 5
    for name, text in recorded.files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.with_name("process").write_text(this.instance)  # a roll considers only running nodes
    plan = planning.plan(load_value(recorded.config[DECLARED], "recorded"))
    with record.image_name():
        content = configuration.install_digest()
        assert renewal.outdated(plan, content) == {}
        # the disks are found, and compared
        assert len(renewal.outdated(plan, f"not {content}")) == len(recorded.files)
