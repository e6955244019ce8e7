"""Program that runs inside the room's namespaces and carries out requests there.

A bare interpreter starts it by path, so it imports only the standard library. Its argument is the number of a socket to
`hands.py`; its input is a line of JSON. A node starts in two steps, so that it never runs without a record. First its
process sends a message over the socket, and the kernel tells the other side the pid of the sender. It continues only
after all pids were recorded.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

# CLONE_NEW...
NEW_MOUNTS, NEW_HOSTNAME, NEW_IPC, NEW_PIDS, NEW_NETWORK = 1 << 17, 1 << 26, 1 << 27, 1 << 29, 1 << 30
NEW_CGROUPS = 1 << 25
# MS_...
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 1 << 5, 1 << 12, 1 << 14, 1 << 18

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
PSEUDO = NOSUID | NODEV | NOEXEC
KUBELETS = {"kernel/panic": 10, "kernel/panic_on_oops": 1, "vm/overcommit_memory": 1}
"""Settings of the kernel that a kubelet insists on (kubelet/cm, setupKernelTunables)."""

AWAITED_S = 1.0

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Carry out the request on standard input, and report on the socket whose number is the argument."""
    teller = socket.socket(fileno=int(sys.argv[1]))
    teller.set_inheritable(False)
    request = json.loads(sys.stdin.readline())
    try:
        for batch in request["batches"]:
            apply(batch["namespace"], batch["ip"], batch["tc"])
        for name in request["forget"]:
            command(["ip", "netns", "delete", name])
        if request["boots"]:
            pids = boot_all(request["boots"], teller)
            addresses = {boot["name"]: boot["address"] for boot in request["boots"] if boot["name"] in pids}
            _wait_for_ssh(addresses, pids, request["timeout_s"], teller)
    except (CommandRefusedError, OSError) as refused:
        say(teller, {"failed": "", "why": str(refused)})
    except Exception:
        say(teller, {"failed": "", "why": traceback.format_exc(limit=-3)})


class CommandRefusedError(Exception):
    """A command failed. The text has the command and its error."""


def say(teller: socket.socket, what: dict[str, Any]) -> None:
    """Send a report to the process that made the request, as a line of JSON."""
    teller.sendall(json.dumps(what).encode() + b"\n")


def command(argv: list[str], text: str = "") -> str:
    """Run a program and return its output. Raise CommandRefusedError with the line at fault."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        line = "".join(text.splitlines()[int(word) - 1] + ": " for word in failed_line(done.stderr))
        raise CommandRefusedError(f"{' '.join(argv)}: {line}{done.stderr.strip()}")
    return done.stdout


def failed_line(errors: str) -> list[str]:
    """Return the line number in "Command failed -:3", with which `ip -batch` reports the failed line."""
    return [text.split()[0] for text in errors.split("Command failed -:")[1:2]]


# -- network


def apply(namespace: str, ip: list[str], tc: list[str]) -> None:
    """Run batches of `ip` and `tc` in a network namespace, which is made if needed."""
    if namespace and not Path("/run/netns", namespace).exists():
        command(["ip", "netns", "add", namespace])
    within = ["-netns", namespace] if namespace else []
    for program, lines in (("ip", ip), ("tc", tc)):
        if lines:
            command([program, *within, "-batch", "-"], "\n".join(lines) + "\n")


# -- nodes


def boot_all(boots: list[dict[str, Any]], teller: socket.socket) -> dict[str, int]:
    """Start all nodes at once, and return the pids of their first processes."""
    gate, opener = os.pipe()
    pids, births = {}, os.pipe()
    for boot in boots:
        if os.fork() == 0:
            os.close(opener)  # close it, so that the gate shows the end of file when the parent ends
            unshare_and_boot(boot, gate, births[1], teller)
        if os.wait()[1] == 0:  # the process in between; the first process of the node is not our child
            pids[boot["name"]] = int(os.read(births[0], 16))
    if sys.stdin.readline() == '"go"\n':
        os.write(opener, b"." * len(boots))
    os.close(opener)
    return pids


def unshare_and_boot(boot: dict[str, Any], gate: int, births: int, teller: socket.socket) -> None:
    """Make the node's namespaces and its first process in them. Never return."""
    try:
        with Path("/run/netns", boot["name"]).open() as namespace:
            check(libc.setns(namespace.fileno(), NEW_NETWORK), "join the network of " + boot["name"])
        enter_cgroups(boot["cgroups"])
        spaces = NEW_MOUNTS | NEW_HOSTNAME | NEW_IPC | NEW_PIDS | (NEW_CGROUPS if boot["cgroups"] else 0)
        check(libc.unshare(spaces), "unshare")
        settle_in_cgroups(boot["cgroups"])
        if pid := os.fork():
            os.write(births, str(pid).encode())
            os._exit(0)
        say(teller, {"born": boot["name"]})
        if os.read(gate, 1):
            build(boot)
            become_init(boot)
    except Exception as error:
        say(teller, {"failed": boot["name"], "why": str(error)})
    finally:
        os._exit(1)


def enter_cgroups(cgroups: list[list[str]]) -> None:
    """Move this process into the control groups, which become the root of its new namespace."""
    for folder, _, _ in cgroups:
        Path(folder, "cgroup.procs").write_text("0")


def settle_in_cgroups(cgroups: list[list[str]]) -> None:
    """Move the node's own processes into a subgroup beside those of its containers.

    In version 2 a group with subgroups has no processes itself.
    """
    for folder in (Path(folder) for folder, kind, _ in cgroups if kind == "cgroup2"):
        (folder / "init" / "cgroup.procs").write_text("0")
        controllers = (folder / "cgroup.controllers").read_text().split()
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))


def mount_cgroups(point: Path, cgroups: list[list[str]]) -> None:
    """Mount the node's control groups; its view begins with its own groups."""
    unified = [kind for _, kind, _ in cgroups if kind == "cgroup2"]
    if unified:
        mount("cgroup2", point, "cgroup2", PSEUDO)
        return
    mount("cgroups", point, "tmpfs", PSEUDO, "mode=755")
    for _, kind, controllers in cgroups:
        (point / controllers).mkdir()
        mount("cgroup", point / controllers, kind, PSEUDO, controllers)


def build(boot: dict[str, Any]) -> None:
    """Put the node's file system together at boot["root"]."""
    os.umask(0o022)
    root = Path(boot["root"])
    mount("none", "/", "", REC | PRIVATE)
    mount("overlay", root, "overlay", 0, _overlay_options(boot))
    mount("proc", root / "proc", "proc", PSEUDO)
    mount("sysfs", root / "sys", "sysfs", PSEUDO | RDONLY)  # after joining the network: /sys/class/net is the node's
    if boot["cgroups"]:
        mount_cgroups(root / "sys/fs/cgroup", boot["cgroups"])
    quieten(root / "proc/sys/net/ipv6/conf")
    steady(root / "proc/sys/net/ipv4/tcp_congestion_control")
    seal_sysctls(root / "proc/sys")
    build_dev(root / "dev", boot["devices"])
    if boot["cgroups"]:
        pretend(root)
    mount(boot["exports"], root / "exports", "", BIND | REC)  # a shared directory may be a disk of its own
    for source, target in boot["volumes"]:
        point = root / target.lstrip("/")
        point.mkdir(parents=True, exist_ok=True)
        mount(source, point, "", BIND)
    _bind_read_only(boot["packages"], root / "exports/.packages")


def _overlay_options(boot: dict[str, Any]) -> str:
    def quoted(path: str) -> str:
        return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")

    lower = ":".join(quoted(layer) for layer in boot["layers"])
    options = f"lowerdir={lower},upperdir={quoted(boot['upper'])},workdir={quoted(boot['work'])}"
    # In a user namespace overlayfs cannot use the trusted attributes with which it marks deleted files.
    return options + ",userxattr" if boot["mapped"] else options


def quieten(interfaces: Path) -> None:
    """Disable IPv6: no program uses it here, and its messages would be on every rail."""
    for scope in ("all", "default"):
        if (interfaces / scope).exists():
            (interfaces / scope / "disable_ipv6").write_text("1")


def steady(congestion_control: Path) -> None:
    """Use a TCP congestion control that reacts only to losses.

    BBR, the default of some hosts, takes a moment without a CPU for a slow link, and then sends for seconds at a
    fiftieth of a rail's rate.
    """
    congestion_control.write_text("reno")


def seal_sysctls(path: Path) -> None:
    """Make all settings except the network's read-only. The others are the host's, and no node may change them."""
    _bind_read_only(str(path), path)
    mount(path / "net", path / "net", "", BIND)
    mount("none", path / "net", "", REMOUNT | BIND | PSEUDO)


def pretend(root: Path) -> None:
    """Give a kubelet files that it can write as if the kernel were its own. They have no effect."""
    (root / "dev/kmsg").symlink_to("null")
    for name, value in KUBELETS.items():
        own = root / "dev" / f".{name.replace('/', '.')}"
        own.write_text(f"{value}\n")
        mount(own, root / "proc/sys" / name, "", BIND)


def build_dev(dev: Path, accelerators: list[str]) -> None:
    """Build a /dev with the usual devices and the stand-ins for accelerators, without the host's disks."""
    mount("dev", dev, "tmpfs", NOSUID, "mode=755")
    fuse = ["fuse"] if Path("/dev/fuse").exists() else []  # some hosts lack it
    for name in (*DEVICES, *fuse, *accelerators):
        (dev / name).touch()
        mount(Path("/dev", name), dev / name, "", BIND)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    mount("devpts", dev / "pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5")
    for name, target in LINKS.items():
        (dev / name).symlink_to(target)


def become_init(boot: dict[str, Any]) -> None:
    """Become the node's first program, and leave nothing of this process."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except OSError:
            continue  # the C library keeps some for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    console = os.open(boot["console"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(console, 1)
    os.dup2(console, 2)
    os.chdir(boot["root"])
    hand_over = "pivot_root . mnt && cd / && umount -l /mnt && exec /sbin/stampworks-init"
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    os.execve("/bin/sh", ["sh", "-c", hand_over], environment)  # noqa: S606 - to become it is the point


def _wait_for_ssh(addresses: dict[str, str], pids: dict[str, int], timeout_s: float, teller: socket.socket) -> None:
    waiting, deadline, said = dict(addresses), time.monotonic() + timeout_s, time.monotonic()
    while waiting:
        for name, address in list(waiting.items()):
            if _ssh_answers(address):
                say(teller, {"up": name})
            elif not Path("/proc", str(pids[name])).exists():
                say(teller, {"failed": name, "why": "its first process ended"})
            elif time.monotonic() > deadline:
                why = f"sshd does not answer at {address} after {timeout_s:g} s{refused()}"
                say(teller, {"failed": name, "why": why})
            else:
                continue
            del waiting[name]
        if waiting and time.monotonic() > said + AWAITED_S:
            say(teller, {"awaited": sorted(waiting)})  # fails when the reader has ended, which ends this process
            said = time.monotonic()
        time.sleep(0.01)


def _ssh_answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=0.5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def refused() -> str:
    """Return the kernel's reason against another process, which would keep sshd silent; empty if it allows one."""
    try:
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    except OSError as error:
        return f": {error.strerror}"
    return ""


# -- system calls


def mount(source: Any, target: Any, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system. Raise OSError with both paths."""
    arguments = [str(value).encode() if value != "" else None for value in (source, target, kind)]
    result = libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None)
    check(result, f"mount {source} on {target}")


def _bind_read_only(source: str, target: Path) -> None:
    mount(source, target, "", BIND)
    mount("none", target, "", REMOUNT | BIND | RDONLY | NOSUID | NODEV)


def check(result: int, what: str) -> None:
    """Raise OSError for the result of a call of libc that failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
