"""Verbs for a running cluster use the stamped plan, while the file may be edited."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stampworks.cli import clusters, exits, stacks
from stampworks.cli.main import main
from stampworks.plan import Plan, to_dict

from tests.operations.slurm.standin import StandIn, node

Edit = Callable[[str, str], None]
ROLL, CLUSTER = "stampworks:cluster:Roll", "stampworks:cluster:Cluster"


def hold(backend: Path, *resources: dict[str, Any]) -> None:
    """Let the backend hold these resources for the stack `local`."""
    (backend / "local.json").write_text(json.dumps({"deployment": {"resources": list(resources)}}))


def written(plan: Plan) -> str:
    return json.dumps(to_dict(dataclasses.replace(plan, reasons=())))


@pytest.fixture
def stamped(project: Path, backend: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan that the file declares, and that its cluster was stamped with."""
    monkeypatch.chdir(project)
    plan = stacks.plan_of("local")
    hold(backend, {"type": ROLL, "inputs": {"plan": written(plan)}})
    return plan


@pytest.fixture
def edit(project: Path) -> Edit:
    file = project / "stacks" / "Pulumi.local.yaml"

    def call(old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return call


def test_nothing_is_said_of_a_file_that_says_what_was_stamped(
    stamped: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dataclasses.replace(stamped, reasons=()) == clusters.plan_of("local")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "name: local",
            "name: other",
            "; `pulumi up` would change, from Pulumi.local.yaml: name: local in the cluster, other in the file\n",
        ),
        (
            "count: 2",
            "count: 3",
            "; `pulumi up` would change, from Pulumi.local.yaml: pool gpu: 2 nodes in the cluster, 3 in the file\n",
        ),
        ("count: 2", "cout: 2", ": stacks/Pulumi.local.yaml:7:40: pools[0].cout: there is no such key\n"),
        ("config:", "config: [", ": stacks/Pulumi.local.yaml:1:9: the '[' is never closed\n"),
    ],
)
def test_unstamped_changes_have_no_effect(
    old: str, new: str, text: str, stamped: Plan, edit: Edit, cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line on stderr describes the difference; every verb uses the stamped plan."""
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001", gres="", gres_used=""))
    assert main(["status"]) == exits.FINE
    before = capsys.readouterr()
    edit(old, new)
    assert main(["status"]) == exits.FINE
    after = capsys.readouterr()
    assert after.out == before.out
    # a slow machine sees progress beside it
    notes = [line for line in after.err.splitlines(keepends=True) if line.startswith("note: ")]
    assert notes == [f"note: the cluster is taken as it was stamped{text}"]


def test_a_file_that_differs_much(stamped: Plan, edit: Edit, capsys: pytest.CaptureFixture[str]) -> None:
    """Declared differences come first, and `pulumi preview` shows all of them."""
    edit("name: local\n", "name: other\n    network: {cidr: 10.99.0.0/16}\n    fabric: {leaf_nodes: 1}\n")
    edit("count: 2", "count: 3")
    assert clusters.plan_of("local").name == "local"
    assert capsys.readouterr().err == (
        "note: the cluster is taken as it was stamped; `pulumi up` would change, from Pulumi.local.yaml: name: "
        "local in the cluster, other in the file; network range: 10.77.0.0/16 in the cluster, 10.99.0.0/16 in "
        "the file; fabric leaf nodes: 2 in the cluster, 1 in the file; and 1 more\n"
    )


def test_a_file_that_is_gone(stamped: Plan, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "stacks" / "Pulumi.local.yaml").unlink()
    assert clusters.plan_of("local").name == "local"
    assert capsys.readouterr().err == (
        "note: the cluster is taken as it was stamped: stacks/Pulumi.local.yaml: there is no stack 'local'\n"
    )


def test_nodes_that_are_not_ours_have_no_roll(stamped: Plan, backend: Path, edit: Edit) -> None:
    """The cluster itself then has the plan of the last complete `up`."""
    hold(backend, {"type": CLUSTER, "outputs": {"plan": written(stamped)}})
    edit("count: 2", "count: 3")
    assert clusters.plan_of("local").pools[0].count == 2


def test_unstamped_stacks_are_read_from_their_file(project: Path, edit: Edit) -> None:
    """An `up` that failed before all nodes were there has left no plan."""
    edit("count: 2", "count: 3")
    assert clusters.plan_of("local").pools[0].count == 3


def test_plans_of_another_release(stamped: Plan, backend: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plans of other releases may have other fields: the file is used, with a warning."""
    text = written(stamped).replace('"queues"', '"lines"')
    hold(backend, {"type": ROLL, "inputs": {"plan": text}})
    assert clusters.plan_of("local") == stamped
    assert capsys.readouterr().err == (
        "note: the cluster was stamped by another release of stampworks, and its file is read instead: "
        "Plan.scheduler: lacks queues\n"
    )


def test_a_stack_with_several_clusters(stamped: Plan, backend: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program may create several clusters; the name of the stack then identifies none."""
    hold(backend, *({"type": CLUSTER, "outputs": {"name": name}} for name in ("a", "b")))
    assert main(["status"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "stack 'local' has 2 clusters: a, b\n  hint: name the file of one's plan: -s plan.json\n"
    )


def test_a_backend_that_does_not_answer(stamped: Plan, backend: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is not used as a guess, and a plan's file needs no backend."""
    (backend / "pulumi").write_text("#!/bin/sh\necho 'error: no bucket' >&2; exit 1\n")
    assert main(["status"]) == exits.UNKNOWN
    assert capsys.readouterr().err == (
        "cannot tell how the cluster of stack 'local' was stamped: error: no bucket\n"
        "  hint: name a plan's file, -s plan.json: `stampworks plan --json` and `pulumi stack output plan` write one\n"
    )
