"""Retention of images in the cache: keep images below a node's disk, and a few that were used last.

Clones, branches and releases each have an image, and their end is unknown. Building a new image therefore removes old
ones. A room writes its path next to each image of its nodes, because rooms can be anywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from stampworks.machine_room import files
from stampworks.machine_room.disks import NodeImage, disk_of
from stampworks.machine_room.room import Progress, Room
from stampworks.state import paths

KEPT = 8
"""Images to keep without any node. Switching between clones must not build each time."""
ROOMS, PARTS, CONTAINERS = "rooms", "parts.json", "containers"


def describe(node: Path, parts: list[str]) -> None:
    """Write down the parts below an image, so that they stay as long as the image does."""
    files.write(node / PARTS, json.dumps(parts))


def mark(node: Path) -> None:
    """Note that nodes of this image run containers."""
    (node / CONTAINERS).touch()


def image(digest: str) -> NodeImage:
    """Return the image of a digest. It is in the cache as long as a disk needs it."""
    folder = paths.cache_dir() / "images"
    parts: list[str] = json.loads((folder / digest / PARTS).read_text())
    base, repository = (folder / part for part in parts)
    layers = (str(folder / digest / "layer"), str(base / "tree"))
    return NodeImage(digest, layers, str(repository / "repository"), (folder / digest / CONTAINERS).exists())


def touch(node: Path) -> None:
    """Mark an image as the last used one.

    If the clock was set back, other images may have later times: use a time after all of them.
    """
    asked = max([time.time_ns(), *(_last_use(other) + 1 for other in node.parent.glob("node-*"))])
    os.utime(node, ns=(asked, asked))


def claim(room: Room, image: NodeImage) -> None:
    """Keep an image for the nodes of a room. The caller holds the room's lock."""
    node = Path(image.layers[0]).parent
    if str(room.folder) not in (str(one.folder) for one in _rooms(node)):
        with (node / ROOMS).open("a") as record:  # append a complete line: two rooms may do this at the same time
            record.write(f"{room.folder}\n")


def sweep(images: Path, progress: Progress) -> None:
    """Remove images that are no longer used. The caller holds the lock under which images are made."""
    for leftover in images.glob(".*-*"):  # left by a build or removal that was killed
        files.remove_tree(leftover, "node image")
    nodes = sorted(images.glob("node-*"), key=_last_use, reverse=True)
    gone = [node for node in nodes if (node / PARTS).exists() and not _in_use(node)][KEPT:]
    kept = [node for node in nodes if node not in gone]
    if all((node / PARTS).exists() for node in kept):  # otherwise the parts of an image are unknown
        needed = {part for node in kept for part in json.loads((node / PARTS).read_text())}
        gone += [part for part in (*images.glob("base-*"), *images.glob("packages-*")) if part.name not in needed]
    for path in gone:
        progress(f"removing {path.name}, which nothing uses")
        # rename it first: under this name it does not count as a complete image
        files.remove_tree(path.rename(path.with_name(f".{path.name}")), "node image")


def _last_use(node: Path) -> int:
    """Return the time at which an image was used last; 0 if another process is removing it."""
    with contextlib.suppress(FileNotFoundError):
        return node.stat().st_mtime_ns
    return 0


def _in_use(node: Path) -> bool:
    """Whether a disk of some room was made from this image."""
    return any(
        found.image == node.name
        for room in _rooms(node)
        for disk in room.nodes.glob("*")
        if (found := disk_of(room, disk.name).commission)
    )


def _rooms(node: Path) -> Iterator[Room]:
    record = node / ROOMS
    for line in record.read_text().splitlines() if record.exists() else ():
        yield Room(Path(line), line)
