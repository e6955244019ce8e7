"""`stampworks drain` and `return` against a stand-in for a cluster."""

from __future__ import annotations

import json

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main

from tests.operations.slurm.standin import StandIn, job, node

DRAIN = ["drain", "gpu-002", "--reason", "new fans"]


@pytest.fixture(autouse=True)
def alice(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person at the keyboard."""
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.delenv("SUDO_USER", raising=False)
    cluster.nodes(node("gpu-001"), node("gpu-002"), node("cpu-001"))


def test_drain_and_return(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Both commands end with the state of the nodes. A drained node does not change their exit code."""
    cluster.jobs([job(7, "bob", "gpu-002")])
    assert main(DRAIN) == exits.FINE
    assert capsys.readouterr().out == (
        "  node     pool  address    state       jobs  GPUs used  rails  held by  reason\n"
        "  gpu-002  gpu   10.77.1.2  idle+drain     7  0 of 8         2  alice    new fans\n"
        "gpu-002: idle+drain, held by alice: new fans\n"
    )
    assert main(["return", "gpu-002"]) == exits.FINE
    assert (
        capsys.readouterr().out.splitlines()[1]
        == "  gpu-002  gpu   10.77.1.2  idle      7  0 of 8         2        -       -"
    )


@pytest.mark.parametrize(("sudo", "who"), [("", "alice"), ("bob", "bob")])
def test_drains_have_an_author(cluster: StandIn, monkeypatch: pytest.MonkeyPatch, sudo: str, who: str) -> None:
    """The person behind sudo, not root."""
    monkeypatch.setenv("SUDO_USER", sudo)
    main(DRAIN)
    assert cluster.updates == [f'update nodename=gpu-002 state=drain reason="person {who}: new fans"']


def test_a_login_without_a_name(cluster: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run under a user number without a name."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nobody)
    main(DRAIN)
    assert cluster.updates == ['update nodename=gpu-002 state=drain reason="person unknown: new fans"']


def test_as_json(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is typed there, too."""
    assert main([*DRAIN, "--json"]) == exits.FINE
    [found] = json.loads(capsys.readouterr().out)["nodes"]
    assert (found["name"], found["state"]) == ("gpu-002", "idle+drain")
    assert found["reason"] == {"by": "person", "who": "alice", "text": "new fans"}
    assert main(["status", "--json"]) == exits.NO
    assert json.loads(capsys.readouterr().out)["nodes"][2] == found


def test_waiting_in_vain(cluster: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is no, with the jobs and the ways out."""
    monkeypatch.setattr("time.monotonic", iter(range(0, 10**6, 601)).__next__)
    cluster.jobs([job(7, "bob", "gpu-002")])
    assert main([*DRAIN, "--wait"]) == exits.NO
    assert "gpu-002 did not become free within 10 minutes: they stay drained\n" in capsys.readouterr().err


def test_waiting(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The command succeeds once no job runs there."""
    cluster.jobs([job(7, "bob", "gpu-002")], [])
    assert main([*DRAIN, "--wait"]) == exits.FINE
    assert "waiting for job 7 on gpu-002" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["drain", "gpu-02", "--reason", "x"], exits.WRONG_INPUT, "no node is called 'gpu-02' in cluster local\n"),
        (["drain", "head", "--reason", "x"], exits.WRONG_INPUT, "head is the controller and runs no jobs\n"),
        (["drain", "gpu-002", "--reason", ""], exits.WRONG_INPUT, "the reason is empty\n"),
        (["return", "cpu-01"], exits.WRONG_INPUT, "no node is called 'cpu-01' in cluster local\n"),
        (["return", "gpu-001"], exits.NO, "gpu-001 is held by the health check: rail0 has no carrier\n"),
    ],
)
def test_refused_drains(
    cluster: StandIn, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, text: str
) -> None:
    """A refused command changes nothing."""
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="health: rail0 has no carrier"), node("cpu-001"))
    assert main(argv) == code
    assert capsys.readouterr().err.startswith(text)
    assert cluster.updates == []


def test_return_by_force(cluster: StandIn) -> None:
    """`--force` returns a held node."""
    cluster.nodes(node("gpu-001", "IDLE", "DRAIN", reason="health: rail0 has no carrier"))
    assert main(["return", "gpu-001", "--force"]) == exits.FINE


def test_silent_head_is_unknown(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Could not tell, and nothing was done."""
    cluster.unreachable()
    assert main(DRAIN) == exits.UNKNOWN
    assert "head cannot be reached" in capsys.readouterr().err
