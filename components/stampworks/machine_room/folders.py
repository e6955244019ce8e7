"""Folders that outlive nodes: shared directories, which every node sees, and volumes, each mounted on one node."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stampworks.machine_room import files
from stampworks.machine_room.room import Room, of_cluster

Kind = Literal["exports", "volumes"]


def ensure_folder(cluster: str, claim: str, kind: Kind, name: str) -> Path:
    """Makes it. All nodes, also those that run, see a shared directory as /exports/<name>; a volume appears at boot."""
    room = of_cluster(cluster)
    with room.locked():
        room.claim(claim)
        return files.make_directory(_path(room, kind, name))


def read_folder(cluster: str, kind: Kind, name: str) -> Path | None:
    """The directory, None when there is none."""
    path = _path(of_cluster(cluster), kind, name)
    return path if path.is_dir() else None


def end_folder(cluster: str, claim: str, kind: Kind, name: str) -> None:
    """Removes the directory with all that is in it; fine when there is none."""
    room = of_cluster(cluster)
    with room.locked():
        if room.is_ours(claim):
            files.remove_tree(_path(room, kind, name), name)


def _path(room: Room, kind: Kind, name: str) -> Path:
    return {"exports": room.exports, "volumes": room.volumes}[kind] / name
