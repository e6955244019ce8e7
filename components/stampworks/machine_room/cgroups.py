"""Control groups of nodes that divide their resources among containers.

Such a node sees its own group, below the group of the process that started it, as the root.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room import files
from stampworks.machine_room.errors import AGAIN, RoomError

RECORD = "cgroups.json"
"""File in the folder of a node that lists its control groups."""
_APART = "stampworks"
_INHERITED = ("cpuset.cpus", "cpuset.mems")
"""Files that must not be empty before a process enters a group of version 1."""
_UNIFIED = "cgroup2"


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy of this host. Version 1 has one for each controller, version 2 has one for all."""

    point: Path
    kind: str
    options: str
    """Mount options: the controllers, in version 1."""
    ours: Path
    """Group below which new groups are made."""


def make(record: Path, where: str, cluster: str, name: str) -> tuple[tuple[str, str, str], ...]:
    """Make the groups of a node, after writing them down. Return directory, kind and options of each."""
    found = _hierarchies()
    if not found:
        why = "no control groups are mounted on this host, and a node that runs pods divides its memory with them"
        raise RoomError(where, f"node {name} cannot boot", why, "mount them: /sys/fs/cgroup")
    # other clusters of this host, or of another state folder, may have nodes of the same name
    called = f"{cluster}-{name}-{hashlib.sha256(str(record).encode()).hexdigest()[:8]}"
    made = [(each, each.ours / called) for each in found]
    files.write(record, json.dumps([str(folder) for _, folder in made]))
    try:
        for each, folder in made:
            _make(each, folder)
    except OSError as error:
        why = "the control groups of this host are not ours to divide"
        raise RoomError(where, f"node {name} cannot boot", f"{why}: {error}", "start it as root") from error
    return tuple((str(folder), each.kind, each.options) for each, folder in made)


def remove(record: Path, where: str) -> None:
    """Remove the groups of an ended node, with the groups that it created in them. Do nothing if there are none."""
    try:
        folders = [Path(folder) for folder in json.loads(record.read_text())]
    except (FileNotFoundError, ValueError):
        return
    for folder in folders:
        for path, _, _ in os.walk(folder, topdown=False):
            try:
                Path(path).rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise RoomError(where, f"cannot remove control group {path}", str(error), AGAIN) from error
        with contextlib.suppress(OSError):  # the last group of this user removes the common parent
            folder.parent.rmdir()
    record.unlink()


def _make(hierarchy: Hierarchy, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if hierarchy.kind == _UNIFIED:
        (folder / "init").mkdir(exist_ok=True)  # holds the node's own processes: see `inside`
        for above in (hierarchy.point, folder.parent):
            controllers = (above / "cgroup.controllers").read_text().split()
            (above / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))
        return
    for below in (folder.parent, folder):
        for name in _INHERITED:
            file = below / name
            if file.exists() and not file.read_text().strip():
                file.write_text((below.parent / name).read_text())


def _hierarchies() -> list[Hierarchy]:
    mounted = list(_mounted())
    divided = [each for each in mounted if each.kind == "cgroup"]
    return divided or [each for each in mounted if each.kind == _UNIFIED]


def _mounted() -> Iterator[Hierarchy]:
    """Yield the hierarchies.

    Version 1: below our own group of each controller, so that our limits hold. Version 2: at the root, because a group
    with processes, such as ours, cannot have subgroups.
    """
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    paths = {frozenset(controllers.split(",")): path for _, controllers, path in own}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        (root, point), (kind, _, options) = before.split()[3:5], after.split()[:3]
        if kind == _UNIFIED:
            yield Hierarchy(Path(point), kind, "", Path(point) / _APART)
        elif kind == "cgroup":
            controllers = frozenset(options.split(",")) - {"rw", "ro"}
            if path := paths.get(controllers):
                below = path.removeprefix(root.rstrip("/")).lstrip("/")
                yield Hierarchy(Path(point), kind, ",".join(sorted(controllers)), Path(point, below, _APART))
