"""Asking the server of a Kubernetes that may hear and say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.machine_room import RoomError
from stampworks.machine_room.kubernetes import kubectl


def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads have a short limit, and an error with step and remedy."""
    monkeypatch.setattr(kubectl, "command", lambda _: ("/bin/sh", "-c", "sleep 60", "sh"))
    monkeypatch.setattr(kubectl, "_LOOK_S", 0.1)
    with pytest.raises(RoomError) as caught:
        kubectl.Kubectl("room k", tmp_path / "admin.conf").listed("cannot look at nodes", "nodes")
    assert str(caught.value) == (
        "room k: cannot look at nodes: its server does not answer within 0.1 s\n"
        "  hint: run the same command again: it continues"
    )
