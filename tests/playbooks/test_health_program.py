"""The health program beside a concurrent look, and its reports to Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stampworks.configuration import playbooks_dir

PROGRAM = playbooks_dir() / "roles/health/files/stampworks-health"
HELD = "State=IDLE+DRAIN\n   Reason=health: 7 of 8 accelerators [root@2026-11-23T06:00:00]\n"
FREE = "State=IDLE\n   Reason=health: 7 of 8 accelerators [root@2026-11-23T06:00:00]\n"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    found = ModuleType("stampworks_health")
    monkeypatch.setenv("PATH", "")  # the program sets it for its children
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), found.__dict__)  # noqa: S102  (an import leaves files there)
    monkeypatch.setattr(found, "MARK", str(tmp_path / "mark"))
    (tmp_path / "mark").write_text("health: 7 of 8 accelerators")
    return found


@pytest.mark.parametrize(("after", "refused"), [(FREE, False), (HELD, True)])
def test_a_node_that_the_other_one_has_given_back_is_free(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, after: str, refused: bool
) -> None:
    """Slurm refuses to resume a node that already takes jobs; the program remembers its own drain after any other
    refusal."""
    said = iter([HELD, after])

    def output(*words: str) -> str:
        if words[1] == "update":
            raise ValueError("scontrol: slurm_update error: Invalid node state specified")
        return next(said)

    monkeypatch.setattr(program, "output", output)
    if refused:
        with pytest.raises(ValueError, match="Invalid node state"):
            program.give_back()
    else:
        program.give_back()
    assert Path(program.MARK).exists() == refused


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({}, (True, "health: rail0 has no carrier")),
        ({"held": "health: 7 of 8 accelerators", "out": True}, (True, "health: rail0 has no carrier")),
        ({"held": "person alice: new fans", "out": True}, (True, "person alice: new fans")),
        ({"held": "proof: rail0 is slow", "out": True}, (True, "proof: rail0 is slow")),
        ({"held": "health: of yesterday"}, (True, "health: rail0 has no carrier")),  # a user has uncordoned it
        ({"out": True}, (True, "")),
        ({"taint": "stampworks/unproven"}, (False, "")),
    ],
)
def test_a_node_that_is_not_well_takes_no_pods(
    of_kubernetes: Callable[..., Node], found: dict[str, Any], left: tuple[bool, str]
) -> None:
    """Other holds stay; an unproven node is left to its proof."""
    node = of_kubernetes(**found)
    node.finds("rail0 has no carrier")
    assert node.program.main([]) == 1
    assert (node.out, node.held) == left
    said = node.version
    assert node.program.main([]) == 1
    assert node.version == said  # a known state is not reported again


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({"held": "health: rail0 has no carrier", "out": True}, (False, "")),
        ({"held": "person alice: new fans", "out": True}, (True, "person alice: new fans")),
        ({"held": "proof: rail0 is slow", "out": True}, (True, "proof: rail0 is slow")),
        ({"out": True}, (True, "")),
    ],
)
def test_a_node_that_is_well_again_takes_pods(
    of_kubernetes: Callable[..., Node], found: dict[str, Any], left: tuple[bool, str]
) -> None:
    """Its own holds are removed, and nothing else is changed."""
    node = of_kubernetes(**found)
    node.finds()
    assert node.program.main([]) == 0
    assert (node.out, node.held) == left
    assert not Path(node.program.MARK).exists()


def test_concurrent_cordon_is_kept(of_kubernetes: Callable[..., Node]) -> None:
    """A person who cordons the node between look and update keeps it, and the next look sees that."""
    node = of_kubernetes()
    node.finds("rail0 has no carrier")
    node.in_between = lambda: node.hold("person alice: new fans")
    with pytest.raises(ValueError, match="has been modified"):
        node.program.main([])
    assert node.program.main([]) == 1
    assert (node.out, node.held) == (True, "person alice: new fans")


def test_a_node_that_is_well_asks_nobody(of_kubernetes: Callable[..., Node]) -> None:
    node = of_kubernetes(held="health: of yesterday", out=True)
    Path(node.program.MARK).unlink()
    node.finds()
    assert (node.program.main([]), node.asked) == (0, 0)


def test_unkillable_process_does_not_block_the_check(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for lost storage cannot be killed: the check continues, and reports it."""
    left: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(program, "ANSWER_S", 0.1)
        patch.setattr(program.subprocess.Popen, "kill", lambda process: left.append(process))
        with pytest.raises(program.subprocess.TimeoutExpired):
            program.output("/bin/sleep", "60")
    assert left[0].poll() is None
    left[0].kill()
    left[0].communicate()


class Node:
    """State of a node on the server of a Kubernetes, as far as the node itself may read and write it."""

    def __init__(self, program: ModuleType, held: str = "", out: bool = False, taint: str = "") -> None:
        self.program, self.held, self.out, self.taint = program, held, out, taint
        self.version, self.asked = 1, 0
        self.in_between: Callable[[], None] = lambda: None

    def finds(self, *problems: str) -> None:
        setattr(self.program, "look", lambda _: list(problems))  # noqa: B010  (of a module that has no types)

    def hold(self, reason: str | None) -> None:
        self.held, self.out, self.version = reason or "", reason is not None, self.version + 1

    def ask(self, verb: str, patch: str = "") -> dict[str, Any]:
        self.asked += 1
        if verb == "PATCH":
            wanted = json.loads(patch)
            if wanted["metadata"]["resourceVersion"] != str(self.version):
                raise ValueError("the server of Kubernetes: the object has been modified")
            self.hold(wanted["metadata"]["annotations"]["stampworks/held"])
            assert bool(wanted["spec"]["unschedulable"]) == self.out
        metadata = {"resourceVersion": str(self.version)} | (
            {"annotations": {"stampworks/held": self.held}} if self.held else {}
        )
        spec: dict[str, Any] = {"taints": [{"key": self.taint}]} if self.taint else {}
        found = {"metadata": metadata, "spec": spec | ({"unschedulable": True} if self.out else {})}
        in_between, self.in_between = self.in_between, lambda: None
        in_between()
        return found


@pytest.fixture
def of_kubernetes(program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Node]:
    def made(**found: Any) -> Node:
        node = Node(program, **found)
        monkeypatch.setattr(program, "JOINED_WITH", str(tmp_path))
        monkeypatch.setattr(program.Kubernetes, "__init__", lambda _: None)
        monkeypatch.setattr(program.Kubernetes, "ask", lambda _, *said: node.ask(*said))
        return node

    return made
