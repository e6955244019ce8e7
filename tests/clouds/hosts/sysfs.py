"""The part of /sys by which a DGX H100 shows its accelerators and ports, laid over that of a machine of namespaces."""

from __future__ import annotations

import json

from tests.clouds.hosts.lab import Lab

FAKE = "/root/fake"
PREFIX = "fe80:0000:0000:0000"
_WRITE = """
import json, os, sys
files, links = json.loads(sys.argv[1])
for path, text in files.items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
for path, target in links.items():
    os.makedirs(target, exist_ok=True)
    os.symlink(target, path)
"""
_BIND = f"""
mkdir -p {FAKE}/class/net
mount --bind /sys/class/net {FAKE}/class/net
mount --rbind {FAKE}/class /sys/class
mount --rbind {FAKE}/bus /sys/bus
mount --bind {FAKE}/meminfo /proc/meminfo
"""
_UNBIND = f"umount /proc/meminfo /sys/bus; umount --recursive /sys/class; umount {FAKE}/class/net; rm -r {FAKE}"


def port(index: int) -> str:
    """Return the folder of a port."""
    return f"{FAKE}/class/infiniband/mlx5_{index}/ports/1"


def tree(number: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return files with texts, and links with targets: 8 GPUs, 4 NVLink switches, 8 fabric ports and 2 others."""
    files, links = {f"{FAKE}/meminfo": "MemTotal:       2113409024 kB\n"}, dict[str, str]()
    devices = [("0x2330", "0x030200", f"0000:{0x1A + 8 * index:02x}:00.0") for index in range(8)]
    devices += [("0x22a3", "0x068000", f"0000:{7 + index:02x}:00.0") for index in range(4)]
    for device, kind, address in devices:
        folder = f"{FAKE}/bus/pci/devices/{address}"
        files |= {f"{folder}/{name}": f"{text}\n" for name, text in (("vendor", "0x10de"), ("device", device))}
        files[f"{folder}/class"] = f"{kind}\n"
    # the two ports for storage come first on the bus, with another rate
    for index in range(10):
        rate = "400 Gb/sec (4X NDR)" if index < 8 else "200 Gb/sec (4X HDR)"
        texts = {
            "state": "4: ACTIVE",
            "rate": rate,
            "link_layer": "InfiniBand",
            "sm_lid": "0x1",
            "gids/0": f"{PREFIX}:248a:0703:00{number:02x}:{index:04x}",
            "pkeys/0": "0x7fff",
            "pkeys/1": "0x8001",
            "pkeys/2": "0x0000",
        }
        files |= {f"{port(index)}/{name}": f"{text}\n" for name, text in texts.items()}
        bus = 0x18 + 8 * index if index < 8 else index
        links[f"{FAKE}/class/infiniband/mlx5_{index}/device"] = f"{FAKE}/pci/0000:{bus:02x}:00.0"
    return files, links


def show(lab: Lab, host: str, number: int) -> None:
    """Make a machine show the hardware."""
    lab.lent.run(host, "python3", "-c", _WRITE, json.dumps(tree(number)))
    lab.sh(host, _BIND)


def hide(lab: Lab, host: str) -> None:
    """Make a machine show its own hardware again."""
    lab.sh(host, _UNBIND)
