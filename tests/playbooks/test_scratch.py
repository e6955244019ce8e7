"""The disks inside a machine: joined once, created again when they are blank, and never used if they hold data."""

from __future__ import annotations

import struct
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.stampworks.node.plugins.module_utils import disks as disk_utils
from ansible_collections.stampworks.node.plugins.module_utils import node as node_utils
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.modules import scratch

pytestmark = pytest.mark.long

MODEL = "Amazon EC2 NVMe Instance Storage"
PATH = "/scratch"
MADE = ["/scratch: its 2 disks are not one array", "/scratch: its array has no file system"]


def mark(disk: Path, array: uuid.UUID, name: str) -> None:
    """Write mdadm's superblock, version 1.2 of md.4, onto each disk of an array."""
    block = bytearray(256 + 4)
    struct.pack_into("<4I16s32s", block, 0, 0xA92B4EFC, 1, 0, 0, array.bytes, name.encode())
    struct.pack_into("<3Q", block, 128, 2048, 4096, 8)
    struct.pack_into("<I", block, 220, 2)
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    struct.pack_into("<I", block, 216, (total & 0xFFFFFFFF) + (total >> 32))
    with disk.open("r+b") as file:
        file.seek(4096)
        file.write(block)


class Node:
    """A machine with disks in files, and a stand-in for mdadm, because the kernel of the tests has no arrays."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks, self.devices, self.mounts = folder / "block", folder / "dev", folder / "mountinfo"
        self.fstab, self.point = folder / "fstab", folder / "points/scratch"
        for each in (self.blocks, self.devices):
            each.mkdir()
        self.mounts.write_text("1 0 0:1 / / rw - ext4 /dev/nvme0n1p1 rw\n")
        self.asked: list[str] = []
        names = {"BLOCKS": self.blocks, "DEVICES": self.devices, "FSTAB": self.fstab, "MOUNTINFO": self.mounts}
        for name, value in {**names, "POINTS": folder / "points"}.items():
            monkeypatch.setattr(scratch, name, value)
        self._run = node_utils.run
        monkeypatch.setattr(scratch, "run", self.run)
        self.attach("nvme0n1", "Amazon Elastic Block Store")

    def attach(self, name: str, model: str = MODEL) -> Path:
        (self.blocks / name / "device").mkdir(parents=True)
        (self.blocks / name / "holders").mkdir()
        (self.blocks / name / "device/model").write_text(f"{model:<40}\n")
        return self.blank(name)

    def blank(self, name: str) -> Path:
        disk = self.devices / name
        with disk.open("wb") as file:
            file.truncate(8 << 20)
        return disk

    def boot(self) -> None:
        """Drop mounts and running arrays; data on the disks stays."""
        self.mounts.write_text("1 0 0:1 / / rw - ext4 /dev/nvme0n1p1 rw\n")
        for held in self.blocks.glob("*/holders/*"):
            held.unlink()

    def run(self, argv: list[str], **options: Any) -> Any:
        if argv[0] == "mdadm":
            self.asked.append(" ".join(argv[1:]).replace(f"{self.devices}/", ""))
            return self.mdadm(argv[1] == "--create", [Path(each) for each in argv if "nvme" in each])
        if argv[0] != "mount":
            return self._run(argv, **options)
        assert self.point.stat().st_mode & 0o777 == 0, "nobody writes below a path that is not mounted"
        return self.mounts.write_text(self.mounts.read_text() + f"2 1 0:2 / {argv[1]} rw - ext4 x rw\n")

    def mdadm(self, create: bool, disks: list[Path]) -> None:
        if create:
            array = uuid.uuid4()
            for disk in disks:
                mark(disk, array, "any:stampworks-scratch")
            self.blank("md127")
        for disk in disks:
            (self.blocks / disk.name / "holders/md127").touch()

    def work(self, check: bool = False, disks: int = 2) -> dict[str, Any]:
        return scratch.work(check, PATH, MODEL, disks)

    def refused(self) -> str:
        before = self.contents()
        with pytest.raises(Refused) as caught:
            self.work()
        assert (self.contents(), self.asked) == (before, [])
        return str(caught.value).replace(f"{self.devices}/", "")

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.devices.iterdir()}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path, monkeypatch)
    made.attach("nvme2n1")
    made.attach("nvme1n1")
    return made


def test_blank_disks_become_one_file_system(node: Node) -> None:
    """Check mode changes nothing, and so does a second run; the system disk is not used."""
    before = node.contents()
    assert node.work(check=True) == {"changed": True, "drift": MADE[:1]}
    assert (node.contents(), node.asked) == (before, [])
    assert node.work()["drift"] == [*MADE, f"{node.fstab} differs", "/scratch is not mounted"]
    assert node.asked == [
        "--create md/stampworks-scratch --run --level=0 --raid-devices=2 --name=stampworks-scratch --homehost=any "
        "--force nvme1n1 nvme2n1"
    ]
    assert disk_utils.contents(node.devices / "md127")["TYPE"] == "ext4"
    of = disk_utils.contents(node.devices / "md127")["UUID"]
    assert f"UUID={of} /scratch ext4 defaults,nofail,noatime 0 2\n" in node.fstab.read_text()
    assert node.point.stat().st_mode & 0o7777 == 0o1777
    assert node.work() == node.work(check=True) == {"changed": False, "drift": []}
    assert node.contents()["nvme0n1"] == before["nvme0n1"]


def test_an_array_is_started_again_with_what_it_holds(node: Node) -> None:
    """A boot may not have started it."""
    node.work()
    before = node.contents()
    node.boot()
    assert node.work(check=True)["drift"] == ["/scratch: its array is not started"]
    assert node.work()["drift"] == ["/scratch: its array is not started", "/scratch is not mounted"]
    assert node.asked[1:] == ["--assemble md/stampworks-scratch nvme1n1 nvme2n1"]
    assert node.contents() == before


@pytest.mark.parametrize("blank", [["nvme1n1", "nvme2n1"], ["nvme2n1"]])
def test_blank_disks_are_formatted(node: Node, blank: list[str]) -> None:
    """All or some disks are blank: an array without one of its disks is unreadable."""
    node.work()
    first = node.fstab.read_text()
    node.boot()
    for name in blank:
        node.blank(name)
    assert node.work()["drift"][:2] == MADE
    assert node.fstab.read_text() != first
    assert node.fstab.read_text().count("/scratch") == 1
    assert not node.work()["changed"]


def test_a_run_that_was_killed_is_taken_up(node: Node) -> None:
    """The array is there, and no file system yet."""
    node.mdadm(True, [node.devices / "nvme1n1", node.devices / "nvme2n1"])
    assert node.work()["drift"][0] == MADE[1]
    assert not node.asked


@pytest.mark.parametrize(
    ("make", "holds"),
    [
        (["mkfs.ext4", "-q"], "ext4"),
        (["mkswap", "-q"], "swap"),
        (["sh", "-c", 'printf data | dd of="$0" bs=1 seek=1000000 conv=notrunc'], "something else"),
    ],
)
def test_disk_with_foreign_data_is_left_alone(node: Node, make: list[str], holds: str) -> None:
    """The other disk is not touched either."""
    subprocess.run([*make, node.devices / "nvme2n1"], check=True, capture_output=True)
    assert node.refused() == (
        f"nvme2n1 holds {holds}: not made by Stampworks, and left alone: wipefs --all, if nobody wants it"
    )


def test_an_array_of_somebody_else_is_left_alone(node: Node) -> None:
    """Our arrays are known by name, whichever machine created them."""
    for name in ("nvme1n1", "nvme2n1"):
        mark(node.devices / name, uuid.UUID(int=1), "other:data")
    assert node.refused() == (
        "nvme1n1 holds linux_raid_member; nvme2n1 holds linux_raid_member: not made by Stampworks, and left alone: "
        "wipefs --all, if nobody wants it"
    )


def test_partial_array_is_stopped_first(node: Node) -> None:
    """The kernel holds the other disks of an incomplete array."""
    node.work()
    node.blank("nvme2n1")
    (node.blocks / "nvme2n1/holders/md127").unlink()
    node.mounts.write_text("")
    assert node.work()["drift"][0] == MADE[0]
    assert node.asked[1] == "--stop md127"


def test_mounted_array_is_not_formatted(node: Node) -> None:
    """Two arrays of the toolkit, of two machines, and a mount at the path."""
    for number, name in enumerate(("nvme1n1", "nvme2n1")):
        mark(node.devices / name, uuid.UUID(int=number + 1), "any:stampworks-scratch")
    node.mounts.write_text("2 1 0:2 / /scratch rw - ext4 x rw\n")
    assert node.refused() == "/scratch: is mounted, and its disks are not one array: drain the node and unmount it"


def test_array_with_foreign_data_is_left_alone(node: Node) -> None:
    """The array is the toolkit's, but its content is not."""
    node.mdadm(True, [node.devices / "nvme1n1", node.devices / "nvme2n1"])
    subprocess.run(["mkswap", "-q", node.devices / "md127"], check=True)
    assert node.refused() == "md127: holds swap, not ext4: somebody has made it, and it is left alone"


def test_a_machine_that_lacks_a_disk_is_named(node: Node) -> None:
    """Report a missing disk before the others are formatted."""
    with pytest.raises(Refused) as caught:
        node.work(disks=3)
    assert str(caught.value) == (
        f"/scratch: the machine has 3 disks {MODEL!r}, and this node shows 2: put another machine in its place "
        "(stampworks roll --machine)"
    )


def test_a_disk_that_cannot_be_read_is_not_taken_for_blank(node: Node) -> None:
    (node.devices / "nvme1n1").unlink()
    with pytest.raises(Refused, match="cannot tell whether it is blank: No such file or directory: it is left"):
        node.work()
