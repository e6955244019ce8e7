"""`ensure` of a control plane with daemons that nothing waits for; no program of a Kubernetes runs here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from stampworks.machine_room import RoomError, daemons
from stampworks.machine_room.kubernetes import addons, control_plane
from stampworks.machine_room.kubernetes.control_plane import Addresses, ControlPlaneState
from stampworks.machine_room.kubernetes.kubectl import Kubectl
from stampworks.machine_room.room import Room, of_cluster

PODS = Addresses("10.0.0.1", "10.1.0.0/16", "10.2.0.0/16", 256)
NO_PODS = Addresses("10.0.0.1", "10.1.0.0/16")


@pytest.fixture
def ensured(state: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
    """Return the running daemons, from those that ran before and those that die at their start."""
    assert state
    running: set[str] = set()
    dying: set[str] = set()

    def start(_: Any, asked: Iterable[daemons.Daemon]) -> None:
        running.update(each.name for each in asked if each.name not in dying)

    def install(*_: Any) -> str:
        running.update(addons.names(()))
        running.difference_update(dying)
        return "Kueue and JobSet"

    monkeypatch.setattr(daemons, "start", start)
    monkeypatch.setattr(daemons, "end", lambda _, names: running.difference_update(names))
    monkeypatch.setattr(daemons, "dead", lambda _, names: [name for name in names if name not in running])
    monkeypatch.setattr(daemons, "open_door", lambda *_: 4711)
    monkeypatch.setattr(addons, "install", install)
    monkeypatch.setattr(addons, "write_settings", lambda *_: None)
    monkeypatch.setattr(Kubectl, "until", lambda *_: None)
    monkeypatch.setattr(Kubectl, "apply", lambda *_: None)
    monkeypatch.setattr(control_plane, "run", lambda *_, **__: None)
    monkeypatch.setattr(control_plane, "program", lambda name: name)
    monkeypatch.setattr(Room, "inside", ())
    room = of_cluster("k")
    (room.folder / "daemons").mkdir(parents=True)

    def ensure(addresses: Addresses, *dead: str) -> set[str]:
        dying.clear()
        dying.update(dead)
        for name in dead:
            (room.folder / "daemons" / f"{name}.log").write_text("Listen: listen tcp :53: bind: in use\n")
        control_plane._ensure(room, addresses, {}, (), lambda _: None)
        return set(running)

    return ensure


@pytest.mark.parametrize("name", ["coredns", "kwok"])
def test_one_that_nothing_waits_for_and_that_ends_at_once_is_told(ensured: Callable[..., set[str]], name: str) -> None:
    """The error has its last output, taken before other changes."""
    with pytest.raises(RoomError) as caught:
        ensured(PODS, name)
    assert str(caught.value) == (
        f"cluster k: {name} has ended: Listen: listen tcp :53: bind: in use\n"
        "  hint: run the same command again: it continues"
    )


def test_names_are_answered_as_long_as_nodes_run_pods(ensured: Callable[..., set[str]]) -> None:
    """The DNS server ends with the last such node."""
    assert "coredns" in ensured(PODS)
    assert "coredns" not in ensured(NO_PODS)
    assert "coredns" in ensured(PODS)


def test_it_stays_itself_with_another_authority_and_another_door(
    ensured: Callable[..., set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new identity is created only if nothing of the earlier one is left."""

    def found(port: int) -> ControlPlaneState:
        monkeypatch.setattr(daemons, "open_door", lambda *_: port)
        ensured(NO_PODS)
        return control_plane._state(folder, ())

    folder = of_cluster("k").folder / "kubernetes"
    first = found(4711)
    (folder / "pki" / "ca.crt").unlink()
    renewed = found(4712)
    assert renewed.authority != first.authority
    assert "https://127.0.0.1:4712" in renewed.kubeconfig
    assert renewed.identity == first.identity
    shutil.rmtree(folder)
    assert found(4712).identity != first.identity
