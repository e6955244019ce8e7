"""Which images stay in the cache: those that some node's disk lies on, and the few that were asked for last.

A clone, a branch, a release: each has its own image, and none of them says goodbye. So whoever makes a new image
removes old ones. A room leaves its path beside each image that its nodes were made from, for rooms can be anywhere.
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
"""How many images stay that no node was made from: going back and forth between clones must not build each time."""
ROOMS, PARTS, CONTAINERS = "rooms", "parts.json", "containers"


def describe(node: Path, parts: list[str]) -> None:
    """Writes down what an image lies on, so that it stays as long as the image does."""
    files.write(node / PARTS, json.dumps(parts))


def mark(node: Path) -> None:
    """Notes that nodes of this image run containers."""
    (node / CONTAINERS).touch()


def image(digest: str) -> NodeImage:
    """The image of this digest; it is in the cache as long as some disk lies on it."""
    folder = paths.cache_dir() / "images"
    parts: list[str] = json.loads((folder / digest / PARTS).read_text())
    base, repository = (folder / part for part in parts)
    layers = (str(folder / digest / "layer"), str(base / "tree"))
    return NodeImage(digest, layers, str(repository / "repository"), (folder / digest / CONTAINERS).exists())


def touch(node: Path) -> None:
    """Notes that an image was asked for, after all others: those may bear times to come, if the clock was set back."""
    asked = max([time.time_ns(), *(_asked(other) + 1 for other in node.parent.glob("node-*"))])
    os.utime(node, ns=(asked, asked))


def claim(room: Room, image: NodeImage) -> None:
    """Keeps an image for the nodes of a room; the caller holds the room's lock."""
    node = Path(image.layers[0]).parent
    if str(room.folder) not in (str(one.folder) for one in _rooms(node)):
        with (node / ROOMS).open("a") as record:  # a whole line at once: two rooms may do this at the same time
            record.write(f"{room.folder}\n")


def sweep(images: Path, progress: Progress) -> None:
    """Removes images that are no longer of use; the caller holds the lock under which they are made."""
    for leftover in images.glob(".*-*"):  # of a build or a removal that was killed
        files.remove_tree(leftover, "node image")
    nodes = sorted(images.glob("node-*"), key=_asked, reverse=True)
    gone = [node for node in nodes if (node / PARTS).exists() and not _in_use(node)][KEPT:]
    kept = [node for node in nodes if node not in gone]
    if all((node / PARTS).exists() for node in kept):  # else nobody knows what it lies on
        needed = {part for node in kept for part in json.loads((node / PARTS).read_text())}
        gone += [part for part in (*images.glob("base-*"), *images.glob("packages-*")) if part.name not in needed]
    for path in gone:
        progress(f"removing {path.name}, which nothing uses")
        # under a name that nobody takes for a whole image
        files.remove_tree(path.rename(path.with_name(f".{path.name}")), "node image")


def _asked(node: Path) -> int:
    """When an image was asked for last; never for one that somebody removes just now."""
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
