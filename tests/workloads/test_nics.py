"""Counters of NICs are read at the place of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from validation import nics


def written(folder: Path, **numbers: int) -> None:
    folder.mkdir(parents=True)
    for name, number in numbers.items():
        (folder / name).write_text(f"{number}\n")


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nics, "RDMA_DEVICES", tmp_path)
    return tmp_path


def test_efa_counts_bytes_and_infiniband_words(devices: Path) -> None:
    """A word has four bytes."""
    written(devices / "mlx5_1" / "ports" / "1" / "counters", port_xmit_data=1000, port_rcv_data=250)
    written(devices / "rdmap0s6" / "ports" / "1" / "hw_counters", tx_bytes=5000, rx_bytes=70)
    found = {nic.name: nic.moved() for nic in nics.rdma_ports("eth0")}
    assert found == {"mlx5_1/1": (4000, 1000), "rdmap0s6/1": (5000, 70)}


def test_the_nic_of_the_management_is_no_rail(devices: Path) -> None:
    """The management NIC may be an RDMA device, too."""
    for name, interface in (("mlx5_0", "eth0"), ("mlx5_1", "ib0")):
        written(devices / name / "ports" / "1" / "counters", port_xmit_data=1, port_rcv_data=1)
        (devices / name / "device" / "net" / interface).mkdir(parents=True)
    assert [nic.name for nic in nics.rdma_ports("eth0")] == ["mlx5_1/1"]


def test_a_counter_that_is_not_there_is_not_zero(devices: Path) -> None:
    """The caller gets an error."""
    (devices / "mlx5_1" / "ports" / "1").mkdir(parents=True)
    [nic] = nics.rdma_ports("eth0")
    with pytest.raises(FileNotFoundError, match="port_xmit_data"):
        nic.moved()


def test_an_interface_counts_what_it_carries() -> None:
    """Loopback counts in both directions."""
    import socket

    nic = nics.interface("fabric", nics.interface_of("127.0.0.1"))
    before = nic.moved()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door, socket.socket(type=socket.SOCK_DGRAM) as sender:
        door.bind(("127.0.0.1", 0))
        for _ in range(100):
            sender.sendto(bytes(10_000), door.getsockname())
    assert all(now - then >= 1_000_000 for now, then in zip(nic.moved(), before, strict=True))


def test_unknown_address_has_no_interface() -> None:
    assert nics.interface_of("192.0.2.1") == ""
