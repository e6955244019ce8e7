"""The files of a room: written files are read back, and an unreadable one means no disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.machine_room import NodeImage, disks
from stampworks.machine_room.disks import NodeDisk
from stampworks.machine_room.specs import NetworkSpec, VolumeSpec, commission_text, network_text, read_network

from tests.machine_room.stamping import NETWORK, group

PARTS = ("node", "machine", "accelerators", "image", "volumes")


@pytest.mark.parametrize("network", [NETWORK, NetworkSpec("10.77.0.0/20", "10.77.0.1", "10.240.0.0/12")])
def test_a_network_is_read_as_it_was_written(network: NetworkSpec) -> None:
    """Networks with and without pods are covered."""
    assert read_network(network_text(network)) == network


def test_a_commission_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The commission equals that of the same declaration: otherwise every node would get a new disk."""
    disk, alike = NodeDisk(tmp_path), group(1, (VolumeSpec("state", "/var/lib/state"),))
    wanted = disks.commission(alike.nodes[0], alike, NodeImage("node-1", (), ""))
    disk.commission_file.write_text(commission_text(wanted))
    assert disk.commission == wanted


@pytest.mark.parametrize("lacks", PARTS)
def test_a_commission_that_lacks_a_part_is_none(tmp_path: Path, lacks: str) -> None:
    """The node gets a new disk, and looks do not fail."""
    disk, alike = NodeDisk(tmp_path), group(1)
    written = json.loads(commission_text(disks.commission(alike.nodes[0], alike, NodeImage("node-1", (), ""))))
    disk.commission_file.write_text(json.dumps({name: part for name, part in written.items() if name != lacks}))
    assert disk.commission is None


@pytest.mark.parametrize("text", ["", "[]", "null", '{"node": 1}'])
def test_a_file_that_is_no_commission_is_none(tmp_path: Path, text: str) -> None:
    """This holds for any content."""
    NodeDisk(tmp_path).commission_file.write_text(text)
    assert NodeDisk(tmp_path).commission is None
