"""The disk of an image like those that Debian publishes for clouds: kernel, boot loader, systemd and cloud-init.

It is built from packages of the suite, and contains nothing of the toolkit.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from stampworks.machine_room import apt

PUBLISHED = (
    *("ca-certificates", "cloud-guest-utils", "cloud-init", "dbus", "dhcpcd-base", "e2fsprogs", "fdisk"),
    *("grub-efi-amd64", "initramfs-tools", "iproute2", "iputils-ping", "kmod", "libpam-systemd", "netbase"),
    *("linux-image-cloud-amd64", "netplan.io", "openssh-server", "polkitd", "procps", "python3", "python3-apt"),
    *("sudo", "systemd-resolved", "systemd-sysv", "systemd-timesyncd", "udev"),
)
"""Programs of Debian's configuration `ec2`, as far as a machine needs them to boot and roles expect them."""
SIZE_MIB, LOADER_MIB, ALIGNED_MIB = 8192, 16, 1
CONSOLE = "console=tty0 console=ttyS0,115200"
"""The second serial console is the one that a cloud shows."""
LOADER = "usr/lib/grub/x86_64-efi/monolithic/grubx64.efi"
FIND = "search --no-floppy --fs-uuid --set=root {of}\n"
MENU = FIND + "linux /boot/{kernel} root=UUID={of} ro {console}\ninitrd /boot/{initrd}\nboot\n"
"""GRUB menu of the first boot, which update-grub replaces later."""


def publish(folder: Path, suite: str, brought: Sequence[str], files: Mapping[str, str]) -> Path:
    """Build the disk, with preinstalled packages that an emulated processor would take minutes to unpack, and some
    files."""
    tree, disk, of = folder / "tree", folder / "disk", str(uuid.uuid4())
    apt.make_tree(tree, suite, apt.sources_of(suite), [*PUBLISHED, *brought], print)
    for own in (*tree.glob("etc/ssh/ssh_host_*"), tree / "etc/hostname", tree / "etc/resolv.conf"):
        own.unlink(missing_ok=True)
    (tree / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    (tree / "etc/machine-id").write_text("")
    (tree / "etc/fstab").write_text(f"UUID={of} / ext4 rw,discard,errors=remount-ro 0 1\n")
    for path, content in files.items():
        (tree / path.lstrip("/")).write_text(content)
    (tree / "etc/default/grub.d").mkdir(exist_ok=True)
    (tree / "etc/default/grub.d/10_cloud.cfg").write_text(f'GRUB_CMDLINE_LINUX="{CONSOLE}"\nGRUB_TIMEOUT=0\n')
    [kernel], [initrd] = (
        sorted(each.name for each in tree.glob(f"boot/{kind}-*")) for kind in ("vmlinuz", "initrd.img")
    )
    (tree / "boot/grub/grub.cfg").write_text(MENU.format(of=of, kernel=kernel, initrd=initrd, console=CONSOLE))
    root = ALIGNED_MIB + LOADER_MIB
    with disk.open("wb") as file:
        file.truncate(SIZE_MIB << 20)
    table = f"label: gpt\nstart={ALIGNED_MIB}MiB, size={LOADER_MIB}MiB, type=uefi\nstart={root}MiB, type=linux\n"
    _run(["sfdisk", "--quiet", disk], table)
    size = f"{SIZE_MIB - root - ALIGNED_MIB}M"
    _run(["mke2fs", "-q", "-F", "-t", "ext4", "-U", of, "-E", f"offset={root << 20}", "-d", tree, disk, size])
    (folder / "grub.cfg").write_text(FIND.format(of=of) + "set prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n")
    loader = f"{disk}@@{ALIGNED_MIB << 20}"
    _run(["mformat", "-i", loader, "-T", f"{LOADER_MIB << 11}", "-h", "64", "-s", "32", "::"])
    _run(["mmd", "-i", loader, "::/EFI", "::/EFI/BOOT", "::/EFI/debian"])
    _run(["mcopy", "-i", loader, tree / LOADER, "::/EFI/BOOT/BOOTX64.EFI"])
    _run(["mcopy", "-i", loader, folder / "grub.cfg", "::/EFI/debian/grub.cfg"])
    return disk


def _run(argv: Sequence[str | Path], told: str = "") -> None:
    done = subprocess.run(argv, input=told, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
