"""`stampworks roll` against a stand-in for a cluster, and for the cloud that it is on."""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection
from typing import Any

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main

from tests.operations.slurm.standin import StandIn, node


class Renewal:
    """Records its calls."""

    def __init__(self) -> None:
        self.late: dict[str, str] = {}

    def outdated(self, _plan: Any, _content: str) -> dict[str, str]:
        return self.late

    def condemn(self, _cluster: str, names: Collection[str], why: str, machine: bool) -> None:
        for name in names:
            self.late.pop(name, None)
            self.late |= {name: f"{'machine: ' if machine else ''}{why}"} if why else {}


@pytest.fixture(autouse=True)
def cloud(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> Renewal:
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.delenv("SUDO_USER", raising=False)
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001"))
    found = Renewal()
    monkeypatch.setattr(importlib.import_module("stampworks.operations.roll"), "renewal", lambda _: found)
    return found


def test_nodes_are_named_and_forgiven(capsys: pytest.CaptureFixture[str]) -> None:
    """Author and reason are kept; the head may be among the nodes, and a mark can be taken back."""
    assert main(["roll", "head", "gpu-001", "gpu-002", "--reason", "new \x1b[31mfans"]) == exits.WRONG_INPUT
    assert "U+001B" in capsys.readouterr().err
    assert main(["roll", "head", "gpu-001", "gpu-002", "--reason", "new fans"]) == exits.FINE
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "gpu-[001-002], head: alice says: new fans"
    assert said[1].endswith("renews them when their jobs have ended")
    assert main(["roll", "head", "gpu-002", "--cancel", "--json"]) == exits.FINE
    assert json.loads(capsys.readouterr().out) == {"outdated": {"gpu-001": "alice says: new fans"}}
    assert main(["roll", "gpu-001", "--cancel"]) == exits.FINE
    assert capsys.readouterr().out == "the next up renews no node\n"


def test_another_machine_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Another machine repairs faults that a new disk does not."""
    assert main(["roll", "gpu-001", "--machine", "--reason", "a dead GPU"]) == exits.FINE
    assert capsys.readouterr().out.startswith("gpu-001: machine: alice says: a dead GPU\n")


def test_a_node_that_is_not_there(cloud: Renewal, capsys: pytest.CaptureFixture[str]) -> None:
    """With an unknown node among the names, no node is drained."""
    assert main(["roll", "gpu-001", "gpu-01", "--reason", "x"]) == exits.WRONG_INPUT
    assert "no node is called 'gpu-01'" in capsys.readouterr().err
    assert cloud.late == {}


def test_a_word_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Why, or that it is not so after all."""
    assert main(["roll", "gpu-001"]) == exits.WRONG_INPUT
    assert "one of the arguments --reason --cancel is required" in capsys.readouterr().err
