"""Disks that outlive their node: found by serial number, formatted once, and never if they hold data."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils import node as node_utils
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.modules import volumes

pytestmark = pytest.mark.long

STATE = [{"serial": "vol-0abc", "path": "/var/lib/stampworks/state"}]
Attach = Callable[[str, str], Path]


class Node:
    """A machine with disks in files; mounts are recorded."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.mounted, self.fstab = folder, list[str](), folder / "fstab"
        self.blocks, self.disks, self.mounts = folder / "block", folder / "dev", folder / "mountinfo"
        self.blocks.mkdir()
        self.disks.mkdir()
        self.mounts.write_text("1 0 0:1 / / rw - ext4 /dev/nvme0n1p1 rw\n")
        self.fstab.write_text("UUID=1 / ext4 defaults 0 1\n")
        monkeypatch.setattr(volumes, "BLOCKS", self.blocks)
        monkeypatch.setattr(volumes, "DEVICES", self.disks)
        monkeypatch.setattr(volumes, "FSTAB", self.fstab)
        monkeypatch.setattr(volumes, "MOUNTINFO", self.mounts)
        monkeypatch.setattr(volumes, "POINTS", folder / "points")
        self._run = node_utils.run
        monkeypatch.setattr(volumes, "run", self.run)

    def run(self, argv: list[str], **options: Any) -> Any:
        if argv[0] != "mount":
            return self._run(argv, **options)
        self.mounted.append(argv[1])
        with self.mounts.open("a") as file:
            file.write(f"2 1 0:2 / {argv[1]} rw - ext4 x rw\n")
        return None

    def attach(self, name: str, serial: str) -> Path:
        (self.blocks / name / "device").mkdir(parents=True)
        (self.blocks / name / "device" / "serial").write_text(f"{serial}\n")
        disk = self.disks / name
        with disk.open("wb") as file:
            file.truncate(8 << 20)
        return disk

    def work(self, check: bool = False) -> dict[str, Any]:
        return volumes.work(check=check, volumes=STATE)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def kind(disk: Path) -> str:
    done = subprocess.run(
        ["blkid", "-p", "-o", "value", "-s", "TYPE", disk], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def test_a_blank_disk_is_made_once(node: Node) -> None:
    """The kernel's name of the disk does not matter; a second run changes nothing."""
    node.attach("nvme1n1", "AWS1234")
    disk = node.attach("nvme2n1", "vol0abc")
    found = node.work(check=True)
    assert found["drift"][0] == "/var/lib/stampworks/state: its disk has no file system"
    assert (kind(disk), node.mounted) == ("", [])
    assert node.work()["made"] == ["/var/lib/stampworks/state"]
    assert (kind(disk), kind(node.disks / "nvme1n1"), node.mounted) == ("ext4", "", ["/var/lib/stampworks/state"])
    table = node.fstab.read_text()
    assert table.startswith("UUID=1 / ext4 defaults 0 1\n# Stampworks: begin, written by the volumes role\nUUID=")
    assert " /var/lib/stampworks/state ext4 defaults,nofail,nodelalloc 0 2\n" in table
    assert node.work() == {"changed": False, "drift": [], "made": [], "mounted": []}
    assert node.fstab.read_text() == table


def test_the_disk_of_an_earlier_node_keeps_what_it_holds(node: Node) -> None:
    """A new controller finds queue and accounting of the old one."""
    disk = node.attach("nvme1n1", "vol0abc")
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    before = disk.read_bytes()
    assert (node.work()["made"], node.work()["mounted"]) == ([], [])
    assert disk.read_bytes() == before
    assert node.mounted == ["/var/lib/stampworks/state"]


@pytest.mark.parametrize(
    ("make", "holds"),
    [
        (["mkfs.ext4", "-q", "-O", "journal_dev"], "jbd"),
        (["mkswap", "-q"], "swap"),
        (["sh", "-c", 'printf "\\125\\252" | dd of="$0" bs=1 seek=510 conv=notrunc'], "dos"),
        (["sh", "-c", 'printf data | dd of="$0" bs=1 seek=1000000 conv=notrunc'], "something else"),
    ],
)
def test_disk_with_foreign_data_is_left_alone(node: Node, make: list[str], holds: str) -> None:
    disk = node.attach("nvme1n1", "vol0abc")
    subprocess.run([*make, disk], check=True, capture_output=True)
    before = disk.read_bytes()
    with pytest.raises(Refused) as caught:
        node.work()
    assert str(caught.value) == (
        f"{disk}: holds {holds}, not ext4: this is no disk that was made for it, and it is left alone"
    )
    assert (disk.read_bytes(), node.mounted) == (before, [])


def test_a_disk_that_is_not_there_is_named(node: Node) -> None:
    with pytest.raises(Refused) as caught:
        node.work()
    assert str(caught.value) == (
        "/var/lib/stampworks/state: no disk of this node is vol-0abc; none says what it is called: "
        "it is not attached yet, or to another node"
    )
    node.attach("nvme1n1", "vol0def")
    with pytest.raises(Refused, match="no disk of this node is vol-0abc; there are vol0def: it is not attached yet"):
        node.work()


def test_a_disk_that_cannot_be_read_is_not_taken_for_blank(node: Node) -> None:
    """Otherwise data would be lost."""
    node.attach("nvme1n1", "vol0abc").unlink()
    with pytest.raises(Refused, match="cannot tell whether it is blank: No such file or directory: it is left"):
        node.work()
    assert node.mounted == []
