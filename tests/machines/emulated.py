"""Fully emulated machines with firmware, a bus, disks and a kernel.

They are about ten times slower than this machine, and need no privileges.
"""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stampworks.machine_room.network import MANAGEMENT

FIRMWARE = Path("/usr/share/OVMF")
CORES, MEMORY_MIB = 2, 2048
LIMIT_S = 900
INSIDE = "QEMU NVMe Ctrl"
"""Name of the disk inside the machine. Other disks are attached differently, and have other names."""


@dataclass(frozen=True)
class Disk:
    file: Path
    serial: str
    inside: bool = False


@dataclass
class Emulated:
    """A machine as EC2 has them, plugged into the management network of a room."""

    name: str
    folder: Path
    reach: tuple[str, ...]
    """Command that enters the room's network."""
    mac: str
    disks: Sequence[Disk]
    """Disks of the machine; it boots from the first."""
    devices: tuple[str, ...] = ()
    """Additional devices."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def shown(self) -> str:
        """Return all output of the console since the first boot."""
        file = self.folder / f"{self.name}.console"
        return file.read_text(errors="replace") if file.exists() else ""

    def plug_in(self) -> None:
        for words in (f"tuntap add {self._plug} mode tap", f"link set {self._plug} master {MANAGEMENT} up"):
            subprocess.run([*self.reach, "ip", *words.split()], check=True, timeout=30)

    @property
    def _plug(self) -> str:
        return f"t-{self.name}"

    def switch_on(self) -> None:
        # cloud-init recognizes EC2 by this prefix
        same = uuid.UUID(f"ec2{uuid.uuid5(uuid.NAMESPACE_OID, self.mac).hex[3:]}")
        argv = [*self.reach, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", f"{CORES}"]
        argv += ["-machine", "q35,kernel-irqchip=split", "-m", f"{MEMORY_MIB}", "-nodefaults", "-display", "none"]
        argv += ["-smbios", "type=0,vendor=Amazon EC2"]
        argv += ["-smbios", f"type=1,manufacturer=Amazon EC2,uuid={same},serial={same}"]
        for kind, mode in (("CODE", "readonly=on"), ("VARS", "snapshot=on")):
            argv += ["-drive", f"if=pflash,format=raw,file={FIRMWARE}/OVMF_{kind}_4M.fd,{mode}"]
        for number, each in enumerate(self.disks):
            argv += ["-drive", f"id=d{number},if=none,format=raw,file={each.file},discard=unmap"]
            argv += ["-device", f"{'nvme' if each.inside else 'virtio-blk-pci'},drive=d{number},serial={each.serial}"]
        argv += ["-netdev", f"tap,id=net,ifname={self._plug},script=no,downscript=no"]
        argv += ["-device", f"virtio-net-pci,netdev=net,mac={self.mac},romfile="]
        argv += ["-chardev", f"file,id=console,path={self.folder / self.name}.console,append=on"]
        argv += ["-serial", "chardev:console", "-qmp", f"unix:{self.folder / self.name}.monitor,server=on,wait=off"]
        with (self.folder / f"{self.name}.said").open("ab") as said:
            self.process = subprocess.Popen([*argv, *self.devices], stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def lose_power(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(30)

    def until_shown(self, what: str, after: int = 0) -> None:
        """Waits until its console has shown something, after so many characters."""
        assert self.process
        end = time.monotonic() + LIMIT_S
        while what not in (shown := self.shown[after:]):
            assert self.process.poll() is None, f"{self.name} is off: {shown[-3000:]}"
            assert time.monotonic() < end, f"{self.name} has not shown {what!r} for {LIMIT_S} s: {shown[-3000:]}"
            time.sleep(0.5)

    def press_power(self) -> None:
        """Waits until it has shut itself down."""
        assert self.process
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.folder / f"{self.name}.monitor"))
            monitor.sendall(b'{"execute": "qmp_capabilities"}{"execute": "system_powerdown"}')
            self.process.wait(LIMIT_S)
