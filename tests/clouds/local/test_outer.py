"""What a user is told whose machine forbids what a room needs."""

from __future__ import annotations

import getpass
import os
import shutil
from pathlib import Path

import pytest
from stampworks.clouds.local.room import RoomError, outer
from stampworks.clouds.local.room.processes import Process

RANGE = {"/etc/subuid": ["alice:100000:65536"]}
CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"


@pytest.mark.parametrize(
    ("uid", "newuidmap", "lines", "hint"),
    [
        pytest.param(
            0,
            "",
            {},
            "this needs a root with CAP_SYS_ADMIN and CAP_NET_ADMIN; a container has it only when privileged",
            id="weak root",
        ),
        pytest.param(1000, "", {}, "an ordinary user needs newuidmap; as root: apt-get install uidmap", id="newuidmap"),
        pytest.param(
            1000,
            "/usr/bin/newuidmap",
            {"/etc/subuid": ["bob:100000:65536"]},
            "alice has no subordinate ids; "
            "as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 alice",
            id="no subordinate ids",
        ),
        pytest.param(
            1000,
            "/usr/bin/newuidmap",
            {**RANGE, CLONE: ["0"]},
            "this host forbids user namespaces; as root: sysctl kernel.unprivileged_userns_clone=1",
            id="forbidden by the kernel",
        ),
        pytest.param(
            1000,
            "/usr/bin/newuidmap",
            {**RANGE, CLONE: ["1"], APPARMOR: ["1"]},
            "this host forbids user namespaces; as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            id="forbidden by AppArmor",
        ),
        pytest.param(
            1000,
            "/usr/bin/newuidmap",
            {**RANGE, CLONE: ["1"], APPARMOR: ["0"]},
            "see whether this works: unshare --user --map-root-user --map-auto --mount --net --pid --fork true",
            id="unknown",
        ),
    ],
)
def test_what_most_likely_is_in_the_way_is_named(
    monkeypatch: pytest.MonkeyPatch, uid: int, newuidmap: str, lines: dict[str, list[str]], hint: str
) -> None:
    """The missing privilege, tool or setting, with the command that puts it right."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(getpass, "getuser", lambda: "alice")
    monkeypatch.setattr(shutil, "which", lambda program: newuidmap)
    monkeypatch.setattr(outer, "_lines", lambda path: lines.get(path, []))
    monkeypatch.setattr(outer, "UNSHARE", ("sh", "-c", "echo unshare failed: Operation not permitted >&2; exit 1"))
    recorded: list[Process] = []
    with pytest.raises(RoomError) as refused:
        outer.start("cluster demo", "demo", recorded.append, leashed=False)
    assert recorded == []
    assert str(refused.value) == (
        f"cluster demo: cannot start the machine room: unshare failed: Operation not permitted\n  hint: {hint}"
    )


@pytest.mark.cluster
def test_a_room_whose_starter_dies_before_knowing_it_ends_by_itself(tmp_path: Path) -> None:
    """Nothing can run that nobody has written down."""
    known: list[Process] = []

    def die(process: Process) -> None:
        known.append(process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outer.start("here", "here", die, leashed=False)
    known[0].wait("here")
