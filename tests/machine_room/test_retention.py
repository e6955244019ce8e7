"""Old images leave the cache, except those that a node uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stampworks.machine_room import disks, retention
from stampworks.machine_room.disks import NodeImage
from stampworks.machine_room.room import Room
from stampworks.machine_room.specs import commission_text

from tests.machine_room.stamping import group


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """More images than are kept, each with its own base and packages; the first one was used last."""
    folder = tmp_path / "images"
    for number in range(retention.KEPT + 3):
        names = [f"base-{number:02}", f"packages-{number:02}"]
        for name in (*names, f"node-{number:02}"):
            (folder / name).mkdir(parents=True)
        retention.describe(folder / f"node-{number:02}", names)
        os.utime(folder / f"node-{number:02}", (1_000_000_000 - number,) * 2)
    return folder


def numbers(images: Path, kind: str) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in images.glob(f"{kind}-*"))


def sweep(images: Path) -> list[int]:
    said: list[str] = []
    retention.sweep(images, said.append)
    assert numbers(images, "base") == numbers(images, "packages") == numbers(images, "node")
    return numbers(images, "node")


def test_last_used_images_stay_with_their_layers(images: Path) -> None:
    """An old image stays if it was used recently."""
    retention.touch(images / "node-10")
    assert sweep(images) == [*range(retention.KEPT - 1), 10]
    assert sweep(images) == [*range(retention.KEPT - 1), 10]


def test_last_used_images_stay_after_a_clock_change(images: Path) -> None:
    """After the clock went back, the others seem to be used in the future, and a new image would be the oldest."""
    for number in range(retention.KEPT):
        os.utime(images / f"node-{number:02}", (5_000_000_000 + number,) * 2)
    retention.touch(images / "node-10")
    retention.touch(images / "node-09")
    assert sweep(images) == [*range(2, retention.KEPT), 9, 10]


def test_an_image_stays_as_long_as_a_disk_lies_on_it(images: Path, tmp_path: Path) -> None:
    """Wherever the room is that has the disk, and whether it runs or not."""
    room, image = (
        Room(tmp_path / "rooms/demo", "cluster demo"),
        NodeImage("node-10", (str(images / "node-10/layer"),), ""),
    )
    disk = disks.disk_of(room, "gpu-001")
    disk.folder.mkdir(parents=True)
    one = group(1)
    disk.commission_file.write_text(commission_text(disks.commission(one.nodes[0], one, image)))
    retention.claim(room, image)
    retention.claim(room, image)
    assert (images / "node-10/rooms").read_text() == f"{room.folder}\n"
    assert sweep(images) == [*range(retention.KEPT), 10]
    disk.commission_file.unlink()
    os.utime(images / "node-10", (0, 0))
    assert sweep(images) == [*range(retention.KEPT)]


def test_images_without_description_stay(images: Path) -> None:
    """Images without a description stay, with all layers that they may use."""
    (images / "node-10" / retention.PARTS).unlink()
    retention.sweep(images, lambda _: None)
    assert numbers(images, "node") == [*range(retention.KEPT), 10]
    assert numbers(images, "base") == [*range(retention.KEPT + 3)]
