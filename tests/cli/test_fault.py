"""`stampworks fault`: allowed faults, choices of the seed, and messages. No fault is injected here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import clusters, exits
from stampworks.cli.main import main
from stampworks.clouds.faults import Injected
from stampworks.clouds.local import faults
from stampworks.plan import Plan

from tests.operations.slurm.standin import StandIn

STORAGE = "    storage: [{name: shared, kind: directory, mount: /shared}]\n"


@pytest.fixture(autouse=True)
def made(cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Injected]:
    """Faults that would have been injected."""
    found: list[Injected] = []
    monkeypatch.setenv("STAMPWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(faults, "inject", lambda plan, one: found.append(one))
    return found


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["rail-slo"], "no fault is called 'rail-slo'\n  hint: did you mean rail-slow or"),
        (
            ["rail-slow", "--node", "gpu-02"],
            "no node is called 'gpu-02' in cluster local\n  hint: did you mean gpu-002",
        ),
        (["rail-slow", "--node", "head"], "no node is called 'head' in cluster local\n"),
        (
            ["rail-slow", "--rail", "rail9"],
            "no rail is called 'rail9' in cluster local\n  hint: did you mean rail1 or rail0?",
        ),
        (["rail-slow", "--node", "cpu-001"], "rail-slow cannot be injected: cpu-001 has no rail for it\n"),
        (["power-loss", "--rail", "rail0"], "power-loss is about a node, not a rail\n  hint: leave out --rail\n"),
        (["power-loss", "--severity", "1"], "power-loss has no severity\n  hint: leave out --severity\n"),
        (
            ["rail-slow", "--severity", "1.5"],
            "severity 1.5 is not valid for rail-slow\n  hint: a number from 0.1 to 0.7: the part of its rate "
            "that is left\n",
        ),
        (["rail-slow", "--severity", "nan"], "severity nan is not valid for rail-slow\n"),
        (
            ["ecc-errors", "--severity", "1.5"],
            "severity 1.5 is not valid for ecc-errors\n  hint: a whole number from 1 to 500",
        ),
        (
            ["trunk-slow"],
            "trunk-slow cannot be injected: cluster local has no trunk for it\n  hint: leaves have trunks",
        ),
        (["shared-slow"], "cluster local has no shared directory for it\n  hint: declare one under storage:"),
        (
            ["gpus-missing", "--node", "cpu-001"],
            "gpus-missing cannot be injected: cpu-001 has no accelerators for it\n",
        ),
    ],
)
def test_impossible_faults(
    argv: list[str], text: str, made: list[Injected], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error lists the possible faults; no fault is injected."""
    assert main(["fault", "inject", *argv]) == exits.WRONG_INPUT
    assert text in capsys.readouterr().err
    assert made == []


def test_a_seed_chooses_the_same_again(made: list[Injected], capsys: pytest.CaptureFixture[str]) -> None:
    """The seed chooses omitted options: node, rail and severity. Without a seed a random one is used and printed."""
    for seed in (1, 1, 2, 3, 4, 5, 6, 7, 8):
        assert main(["fault", "inject", "rail-slow", "--seed", str(seed)]) == exits.FINE
    assert made[0] == made[1]
    assert {one.where for one in made} == {"gpu-001", "gpu-002"}
    assert {one.rail for one in made} == {"rail0", "rail1"}
    assert len({one.severity for one in made}) == 8
    assert all(0.1 <= (one.severity or 0) <= 0.7 for one in made)
    capsys.readouterr()
    assert main(["fault", "inject", "rail-slow", "--json"]) == exits.FINE
    said = json.loads(capsys.readouterr().out)
    assert said["check"] == "rails"
    assert main(["fault", "inject", "rail-slow", "--seed", str(said["seed"])]) == exits.FINE
    assert made[-1] == made[-2]


def test_given_options_are_used(made: list[Injected], capsys: pytest.CaptureFixture[str]) -> None:
    """Only options that the user left out are chosen at random."""
    argv = ["rail-slow", "--node", "gpu-002", "--rail", "rail1", "--severity", "0.25", "--seed", "1"]
    assert main(["fault", "inject", *argv]) == exits.FINE
    assert made == [Injected("rail-slow", "gpu-002", "rail1", 0.25)]
    assert capsys.readouterr().out == (
        "rail-slow on gpu-002 rail1 (0.25: the part of its rate that is left): the switch sends to a node at a part of "
        "its rail's rate; rails must catch it\nthe same again: --seed 1\n"
    )
    main(["fault", "inject", "xid", "--node", "gpu-001"])
    assert "xid on gpu-001: simulated: a node's kernel reports" in capsys.readouterr().out


def test_a_trunk_is_found_by_its_leaf_and_by_a_node(made: list[Injected], project: Path) -> None:
    """The fault is recorded under the leaf's name, however it was found."""
    file = project / "stacks" / "Pulumi.local.yaml"
    file.write_text(file.read_text() + "    fabric: {leaf_nodes: 1}\n")
    for where in ("gpu-002", "leaf1-2"):
        assert main(["fault", "inject", "trunk-slow", "--node", where, "--seed", "1"]) == exits.FINE
    assert made[0] == made[1]
    assert made[0].where == "leaf1-2"


def test_a_node_that_is_off_cannot_be_broken(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault on it could not be observed."""
    cluster.roster = type(cluster.roster)(
        *("local", "local", cluster.roster.reach, "root", ""), tuple(cluster.roster.members[:2])
    )
    assert main(["fault", "inject", "bit-flip", "--node", "gpu-002"]) == exits.WRONG_INPUT
    assert "bit-flip cannot be injected: gpu-002 has no node for it" in capsys.readouterr().err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The list shows each fault with its effect, whether it is real, the check that must find it, and its range of
    severity."""
    assert main(["fault", "list"]) == exits.FINE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "nothing is injected"
    assert [line.split()[:3] for line in lines[1:-2]] == [
        [each.name, "simulated" if each.simulated else "live", each.check] for each in faults.FAULTS.values()
    ]
    assert main(["fault", "list", "--json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["faults"]] == list(faults.FAULTS)
    assert found["injected"] == []


@pytest.mark.parametrize(
    "argv", [["-s", "test", "list"], ["list", "-s", "test"], ["-s", "other", "list", "-s", "test"]]
)
def test_the_stack_stands_before_the_action_or_behind_it(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    planned = clusters.plan_of

    def plan_of(stack: str) -> Plan:
        asked.append(stack)
        return planned("local")

    monkeypatch.setattr("stampworks.cli.fault.clusters.plan_of", plan_of)
    assert main(["fault", *argv]) == exits.FINE
    assert asked == ["test"]


def test_clearing_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Clearing without faults succeeds; an unknown name does not."""
    assert main(["fault", "clear"]) == exits.FINE
    assert capsys.readouterr().out == "there was nothing to clear\n"
    assert main(["fault", "clear", "rail-slow", "--node", "gpu-001"]) == exits.FINE
    assert main(["fault", "clear", "rail-fast"]) == exits.WRONG_INPUT
    assert main(["fault", "clear", "--node", "gpu-9"]) == exits.WRONG_INPUT
    assert "no node is called 'gpu-9' in cluster local" in capsys.readouterr().err


def test_other_clouds_have_no_faults(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rented machines are never broken."""
    monkeypatch.setattr("stampworks.cli.fault.clusters.plan_of", _elsewhere)
    assert main(["fault", "list"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "faults cannot be injected in the cloud 'elsewhere'\n  hint: faults are for test clusters, in the cloud local\n"
    )


def _elsewhere(stack: str) -> object:
    return type("Plan", (), {"cloud": "elsewhere", "name": "x"})()
