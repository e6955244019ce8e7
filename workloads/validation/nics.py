"""Counters of a node's NICs: the kernel's own numbers of bytes, which no library can change."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTERFACES, RDMA_DEVICES = Path("/sys/class/net"), Path("/sys/class/infiniband")
GET_ADDRESS = 0x8915
"""SIOCGIFADDR of Linux."""


@dataclass(frozen=True)
class Nic:
    """A NIC with byte counters."""

    use: str
    """Whether it is part of the `fabric`, or for `management`."""
    name: str
    sent: Path
    received: Path
    unit: int = 1
    """Bytes per count."""

    def moved(self) -> tuple[int, int]:
        """Bytes that it has sent and received since it is there."""
        return self.unit * int(self.sent.read_text()), self.unit * int(self.received.read_text())


def interface(use: str, name: str) -> Nic:
    """Return a network interface with the files of its byte counters."""
    counters = INTERFACES / name / "statistics"
    return Nic(use, name, counters / "tx_bytes", counters / "rx_bytes")


def rdma_ports(management: str) -> Iterator[Nic]:
    """Return all ports except the management NIC's. EFA counts bytes, InfiniBand and RoCE words of four bytes."""
    for device in sorted(RDMA_DEVICES.glob("*")):
        if not (device / "device" / "net" / management).exists():
            for port in sorted(device.glob("ports/*")):
                name, of_efa, usual = f"{device.name}/{port.name}", port / "hw_counters", port / "counters"
                if (of_efa / "tx_bytes").exists():
                    yield Nic("fabric", name, of_efa / "tx_bytes", of_efa / "rx_bytes")
                else:
                    yield Nic("fabric", name, usual / "port_xmit_data", usual / "port_rcv_data", unit=4)


def interface_of(address: str) -> str:
    """Return the interface with this address; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                said = fcntl.ioctl(asked.fileno(), GET_ADDRESS, struct.pack("256s", name.encode()))
            except OSError:  # the device has no counter
                continue
            if socket.inet_ntoa(said[20:24]) == address:
                return name
    return ""
