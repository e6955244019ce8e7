"""Mounts, disks and kernel settings."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from stampworks.clouds.hosts.keeping.places import is_below
from stampworks.clouds.hosts.keeping.programs import last_line, run

MOUNTINFO = Path("/proc/self/mountinfo")
SYS = Path("/proc/sys")
BEGIN, END = "# Stampworks: begin", "# Stampworks: end"
"""Lines of fstab between which roles write."""
OF_OTHERS = re.compile(
    r"/(proc|sys|dev|snap|tmp|var/snap|run/(user|credentials|docker|netns|lock|snapd|systemd|containerd)"
    r"|var/lib/(docker|containerd|containers|kubelet))(/|$)"
)
"""Mount points that come and go by themselves, or that are of containers."""
OF_SERVICES = ("/run/stampworks", "/run/slurm", "/run/enroot")
NETWORKED = ("nfs", "nfs4", "lustre", "ceph", "fuse.")
SYSCTLS = (
    "kernel.yama.ptrace_scope",
    "net.core.somaxconn",
    "net.ipv4.conf.*.arp_announce",
    "net.ipv4.conf.*.arp_ignore",
    "net.ipv4.tcp_syn_retries",
    "vm.max_map_count",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
)
"""Kernel settings that roles change."""


def mounts() -> dict[str, list[str]]:
    """Return source and kind of what is mounted, by mount point."""
    found = {}
    for line in MOUNTINFO.read_text(errors="surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and len(kind) > 1:
            found[plain(fields[4])] = [plain(kind[1]), kind[0]]
    return found


def plain(escaped: str) -> str:
    """Return a path of fstab or mountinfo without its octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), escaped)


def split_fstab(text: str) -> tuple[str, list[str]]:
    """Return fstab without the lines of roles, and the mount points of these lines."""
    kept, points, inside = [], [], False
    for line in text.splitlines(keepends=True):
        if line.startswith(BEGIN):
            inside = True
        if not inside:
            kept.append(line)
        elif len(fields := line.split()) > 1 and not line.startswith("#"):
            points.append(plain(fields[1]))
        if line.startswith(END):
            inside = False
    return "".join(kept), points


def of_cluster(points: Collection[str], before: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> list[str]:
    """Return mount points that a cluster brought, given those that roles wrote into fstab."""
    return sorted(point for point in now if point not in before and is_below(point, (*points, *OF_SERVICES)))


def differences(before: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> list[str]:
    """Return the differences of mounts in words."""
    new = [point for point in now if point not in before and not OF_OTHERS.match(point)]
    gone = [point for point in before if point not in now and not OF_OTHERS.match(point)]
    return [f"{point} is mounted" for point in new] + [f"{point} is not mounted" for point in gone]


def unmount(points: Collection[str]) -> list[str]:
    """Unmount, the deepest first. Return the reasons of those that stay."""
    failed = []
    for point in sorted(points, key=len, reverse=True):
        if point not in (now := mounts()):
            continue
        done = run(["umount", "--", point], timeout_s=30)
        if done.returncode and now[point][1].startswith(NETWORKED):  # its server may be gone
            done = run(["umount", "--force", "--lazy", "--", point], timeout_s=30)
        if done.returncode:
            failed.append(f"{point} stays mounted: {last_line(done)}")
    return failed


def disks() -> dict[str, list[str]]:
    """Return file system and its id of each disk and partition that has any."""
    said = run(["lsblk", "--json", "--list", "--paths", "--output", "NAME,FSTYPE,UUID"]).stdout
    try:
        rows = json.loads(said)["blockdevices"]
        return {row["name"]: [row["fstype"], row["uuid"]] for row in rows if row["fstype"] and row["uuid"]}
    except (ValueError, KeyError, TypeError):
        return {}


def modules() -> dict[str, int]:
    """Return the modules of the kernel, and how many use each."""
    try:
        rows = [line.split() for line in Path("/proc/modules").read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[2].isdecimal()}


def modules_in_use(before: Collection[str]) -> dict[str, str]:
    """Return the files of modules that are in use and were not loaded."""
    new = sorted(name for name, users in modules().items() if users and name not in before)
    return {name: run(["modinfo", "--field", "filename", name]).stdout.strip() for name in new}


def sysctls() -> dict[str, str]:
    """Return the kernel settings that roles change."""
    found = {}
    for pattern in SYSCTLS:
        for path in SYS.glob(pattern.replace(".", "/")):
            try:
                found[".".join(path.relative_to(SYS).parts)] = path.read_text().strip()
            except OSError:
                continue
    return found


def restore_sysctls(before: Mapping[str, str]) -> dict[str, str]:
    """Set kernel settings to what they were. Return the reasons of those that stay."""
    failed = {}
    for name, value in sysctls().items():
        if name in before and before[name] != value:
            try:
                (SYS / name.replace(".", "/")).write_text(before[name])
            except OSError as error:
                failed[name] = f"it stays {value}: {error.strerror}"
    return failed
