"""Print the interfaces of a room and of its nodes as JSON, by network namespace; the room's own is "". hands.py runs
this program inside the room with a bare interpreter.

It queries the kernel directly: `ip` and `tc` would take two processes for each node, and slow down the preview of a
large cluster.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

NETWORK = 1 << 30  # CLONE_NEWNET
NAMESPACES = Path("/run/netns")

# Constants of the kernel's rtnetlink.h, if_link.h, if_addr.h and pkt_sched.h.
GET_LINK, GET_ADDRESS, GET_DISCIPLINE = 18, 22, 38
REQUEST_ALL, ERROR, DONE = 0x301, 2, 3
HEADER, LINK, ADDRESS, DISCIPLINE = (struct.Struct(form) for form in ("=LHHLL", "=BxHiII", "=BBBBI", "=BxHiIII"))
NAME, MASTER, LOCAL, KIND, OPTIONS, PARAMETERS, RATE_64 = 3, 10, 2, 1, 2, 1, 4
BYTES_PER_S_AT = 8
UP_AND_LOWER_UP = 0x1 | 0x10000

Found = dict[str, dict[str, object]]
Attributes = dict[int, bytes]


def main() -> None:
    """Print the interfaces of all namespaces; those that end meanwhile are left out."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = {"": interfaces()}
    for path in sorted(NAMESPACES.iterdir()):
        try:
            with path.open() as namespace:
                if libc.setns(namespace.fileno(), NETWORK) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot join the network of {path.name}")
                found[path.name] = interfaces()
        except FileNotFoundError:
            continue  # removed meanwhile
    print(json.dumps(found))


def interfaces() -> Found:
    """Return all interfaces of the current network namespace."""
    names: dict[int, str] = {}
    found: Found = {}
    masters: dict[str, int] = {}
    for fixed, attributes in ask(GET_LINK, LINK.size):
        _, _, index, flags, _ = LINK.unpack(fixed)
        name = names[index] = text(attributes[NAME])
        masters[name] = int.from_bytes(attributes.get(MASTER, b""), "little")
        found[name] = {"up": flags & UP_AND_LOWER_UP == UP_AND_LOWER_UP, "rate_mbps": 0, "addresses": []}
    for name, master in masters.items():
        found[name]["master"] = names.get(master, "")
    for address, index in addresses():
        if index in names:
            found[names[index]]["addresses"] = [*found[names[index]]["addresses"], address]  # type: ignore[misc]
    for index, rate_mbps in rates():
        if index in names:
            found[names[index]]["rate_mbps"] = rate_mbps
    return found


def addresses() -> Iterator[tuple[str, int]]:
    """Yield the IPv4 addresses of this namespace, each with the index of its interface."""
    for fixed, attributes in ask(GET_ADDRESS, ADDRESS.size):
        family, prefix, _, _, index = ADDRESS.unpack(fixed)
        if family == socket.AF_INET and LOCAL in attributes:
            yield f"{socket.inet_ntoa(attributes[LOCAL])}/{prefix}", index


def rates() -> Iterator[tuple[int, int]]:
    """Yield interfaces with a token bucket, and the rate of each."""
    for fixed, attributes in ask(GET_DISCIPLINE, DISCIPLINE.size):
        if text(attributes[KIND]) == "tbf":
            options = split(attributes[OPTIONS])
            (bytes_per_s,) = struct.unpack_from("=I", options[PARAMETERS], BYTES_PER_S_AT)
            if RATE_64 in options:
                (bytes_per_s,) = struct.unpack("=Q", options[RATE_64])
            yield DISCIPLINE.unpack(fixed)[2], round(bytes_per_s * 8 / 1e6)


def ask(what: int, fixed: int) -> Iterator[tuple[bytes, Attributes]]:
    """Yield all objects of a kind from the kernel: the part of fixed size, and the attributes after it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(HEADER.pack(HEADER.size + fixed, what, REQUEST_ALL, 0, 0) + bytes(fixed))
        while True:
            data = kernel.recv(1 << 20)
            while data:
                length, kind, *_ = HEADER.unpack_from(data)
                body = data[HEADER.size : length]
                if kind == DONE:
                    return
                if kind == ERROR:
                    number = -struct.unpack_from("=i", body)[0]
                    raise OSError(number, os.strerror(number))
                yield body[:fixed], split(body[fixed:])
                data = data[aligned(length) :]


def split(data: bytes) -> Attributes:
    """Return the attributes of a netlink message by their type, without the flags in it."""
    found: Attributes = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:length]
        data = data[aligned(length) :]
    return found


def aligned(length: int) -> int:
    """Return a length rounded up to netlink's alignment of 4 bytes."""
    return (length + 3) & ~3


def text(data: bytes) -> str:
    """Return a zero-terminated string of a netlink message."""
    return data.rstrip(b"\0").decode()


if __name__ == "__main__":
    main()
