"""Shared directories: the parallel file system of the local cloud."""

from __future__ import annotations

from pathlib import Path

from stampworks.clouds.local.room import files
from stampworks.clouds.local.room.room import of_cluster


def ensure_share(cluster: str, name: str) -> Path:
    """Makes the directory; every node sees it as /exports/<name>, those that run already too."""
    return files.make_directory(of_cluster(cluster).exports / name)


def read_share(cluster: str, name: str) -> Path | None:
    """The directory, None when there is none."""
    path = of_cluster(cluster).exports / name
    return path if path.is_dir() else None


def end_share(cluster: str, name: str) -> None:
    """Removes the directory with all that is in it; fine when there is none."""
    files.remove_tree(of_cluster(cluster).exports / name, name)
