"""Folders that outlive nodes: shared directories, which every node mounts, and volumes of a single node."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stampworks.machine_room import files
from stampworks.machine_room.room import Room, of_cluster

Kind = Literal["exports", "volumes"]


def ensure_folder(cluster: str, claim: str, kind: Kind, name: str) -> Path:
    """Create the folder.

    All nodes, also running ones, see a shared directory as /exports/<name>. A volume appears at the next boot.
    """
    room = of_cluster(cluster)
    with room.locked():
        room.claim(claim)
        return files.make_directory(_path(room, kind, name))


def read_folder(cluster: str, kind: Kind, name: str) -> Path | None:
    """Return the directory; None when it does not exist."""
    path = _path(of_cluster(cluster), kind, name)
    return path if path.is_dir() else None


def end_folder(cluster: str, claim: str, kind: Kind, name: str) -> None:
    """Remove the directory with its contents, if it exists."""
    room = of_cluster(cluster)
    with room.locked():
        if room.is_ours(claim):
            files.remove_tree(_path(room, kind, name), name)


def _path(room: Room, kind: Kind, name: str) -> Path:
    return {"exports": room.exports, "volumes": room.volumes}[kind] / name
