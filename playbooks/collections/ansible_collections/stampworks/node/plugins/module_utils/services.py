"""Services under runit or systemd: define, start, stop, and see whether one is older than its configuration."""

from __future__ import annotations

import shlex
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, run, write

RUNIT = Path("/etc/stampworks/services")
SYSTEMD = Path("/etc/systemd/system")
LOGS = Path("/var/log/stampworks")
AWAIT_PORT = "/usr/local/libexec/stampworks/await-port"
WAIT_S = 20
TAI_EPOCH = 2**62 + 10
"""What TAI64 calls the first second of 1970."""
RUNIT_RUNS = 1
OURS = "# Written by Stampworks."
SYSTEMD_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$"})


@dataclass(frozen=True)
class Service:
    name: str
    command: tuple[str, ...]
    awaits: tuple[str, ...] = ()
    """host:port of what must answer before the command may start."""
    limits: tuple[tuple[str, str], ...] = ()
    """(limit by systemd's name, value): MEMLOCK, NOFILE."""
    directories: tuple[tuple[str, str], ...] = ()
    """(directory, owner) that may not be there when it starts: a boot empties /run, a new volume is empty."""
    once: bool = False
    """Runs to its end at every boot instead of staying."""

    @property
    def before(self) -> list[list[str]]:
        """What must have ended well before the command starts."""
        made = [["install", "-d", "-m", "750", "-o", owner, "-g", owner, path] for path, owner in self.directories]
        return made + [[AWAIT_PORT, *address.rsplit(":", 1)] for address in self.awaits]


class Supervisor(Protocol):
    def define(self, service: Service, check: bool) -> bool:
        """Makes the service known, stopped and off at boot if it is new; says whether anything changed."""

    def names(self) -> list[str]:
        """The services that are defined here."""

    def running_since(self, name: str) -> float | None:
        """When it was started, in seconds since the epoch; None when it does not run."""

    def enabled(self, name: str) -> bool: ...

    def enable(self, name: str, on: bool) -> None: ...

    def control(self, name: str, verb: str) -> None:
        """start, stop, restart or reload, done when it returns."""


class Runit:
    ULIMIT: Mapping[str, str] = {"MEMLOCK": "l", "NOFILE": "n"}

    def define(self, service: Service, check: bool) -> bool:
        folder = RUNIT / service.name
        text = self.run_script(service)
        run_file = folder / "run"
        if run_file.exists() and run_file.read_text() == text:
            return False
        if not check:
            if not folder.exists():  # complete before the supervisor sees it
                new = RUNIT.parent / f".{service.name}.new"
                write(new / "down", b"")
                write(new / "run", text.encode(), 0o755)
                RUNIT.mkdir(parents=True, exist_ok=True)
                new.rename(folder)
            else:
                write(run_file, text.encode(), 0o755)
        return True

    @classmethod
    def run_script(cls, service: Service) -> str:
        lines = ["#!/bin/sh", OURS, f"exec >>{LOGS}/{shlex.quote(service.name)}.log 2>&1"]
        lines += [f"{shlex.join(argv)} || exit 1" for argv in service.before]
        for limit, value in service.limits:
            # a node inside a container may not raise its limits: then what it has must do
            lines.append(f"ulimit -{cls.ULIMIT[limit]} {shlex.quote(value)} 2>/dev/null")
        if service.once:
            return "\n".join([*lines, shlex.join(service.command), f"exec sv down {RUNIT / service.name}", ""])
        return "\n".join([*lines, f"exec {shlex.join(service.command)}", ""])

    def names(self) -> list[str]:
        return sorted(path.name for path in RUNIT.glob("*") if path.is_dir())

    def running_since(self, name: str) -> float | None:
        """From the supervisor's own record: TAI64N of the last start, pid and state."""
        try:
            status = (RUNIT / name / "supervise" / "status").read_bytes()
        except OSError:
            return None
        seconds, nanoseconds, pid, *_, state = struct.unpack(">QI", status[:12]) + struct.unpack("<I4B", status[12:20])
        return seconds - TAI_EPOCH + nanoseconds / 1e9 if pid and state == RUNIT_RUNS else None

    def enabled(self, name: str) -> bool:
        return not (RUNIT / name / "down").exists()

    def enable(self, name: str, on: bool) -> None:
        down = RUNIT / name / "down"
        down.unlink(missing_ok=True) if on else down.touch()

    def control(self, name: str, verb: str) -> None:
        folder = RUNIT / name
        self._await_supervisor(folder)
        if verb == "start":
            # one that dies at once would be waited for; who asked looks whether it stays up, and knows its last words
            run(["sv", "up", str(folder)])
            return
        command = {"stop": "force-stop", "restart": "force-restart", "reload": "hup"}[verb]
        run(["sv", "-w", str(WAIT_S), command, str(folder)], timeout=WAIT_S + 5)

    def _await_supervisor(self, folder: Path) -> None:
        """runsvdir looks for new services every five seconds."""
        until = time.monotonic() + 10
        while not (folder / "supervise" / "ok").exists():
            if time.monotonic() > until:
                raise Refused(f"{folder}: nothing supervises it: does runsvdir run on this node?")
            time.sleep(0.05)


class Systemd:
    def define(self, service: Service, check: bool) -> bool:
        path = SYSTEMD / f"{service.name}.service"
        text = self.unit(service)
        if path.exists() and path.read_text() == text:
            return False
        if not check:
            write(path, text.encode())
            run(["systemctl", "daemon-reload"])
        return True

    @staticmethod
    def unit(service: Service) -> str:
        def line(argv: Sequence[str]) -> str:
            return " ".join('"' + word.translate(SYSTEMD_QUOTED) + '"' for word in argv)

        return "\n".join(
            [
                OURS,
                "[Unit]",
                f"Description=Stampworks: {service.name}",
                "After=network-online.target",
                "Wants=network-online.target",
                "[Service]",
                *(f"ExecStartPre={line(argv)}" for argv in service.before),
                f"ExecStart={line(service.command)}",
                *(f"Limit{limit}={'infinity' if value == 'unlimited' else value}" for limit, value in service.limits),
                *(["Type=oneshot", "RemainAfterExit=yes"] if service.once else ["Restart=always", "RestartSec=1"]),
                "Delegate=yes",
                "[Install]",
                "WantedBy=multi-user.target",
                "",
            ]
        )

    def names(self) -> list[str]:
        units = (path for path in SYSTEMD.glob("*.service") if path.read_text().startswith(OURS))
        return sorted(path.stem for path in units)

    def running_since(self, name: str) -> float | None:
        show = ["systemctl", "show", "--property=ActiveState,ExecMainStartTimestampMonotonic", name]
        found = dict(line.split("=", 1) for line in run(show).stdout.splitlines())
        if found.get("ActiveState") != "active":
            return None
        return time.time() - time.monotonic() + int(found["ExecMainStartTimestampMonotonic"]) / 1e6

    def enabled(self, name: str) -> bool:
        return run(["systemctl", "is-enabled", "--quiet", name], check=False).returncode == 0

    def enable(self, name: str, on: bool) -> None:
        run(["systemctl", "enable" if on else "disable", "--quiet", name])

    def control(self, name: str, verb: str) -> None:
        run(["systemctl", verb, name], timeout=WAIT_S + 70)


def supervisor() -> Supervisor:
    """What supervises services on this node."""
    return Systemd() if Path("/run/systemd/system").is_dir() else Runit()


def outdated(since: float, configuration: Sequence[str]) -> bool:
    """Whether a service was started before its configuration came to be what it is now.

    Asked of the node itself, so that a run which was interrupted between writing and restarting is not forgotten.
    """
    return any(path.exists() and path.stat().st_ctime > since for path in map(Path, configuration))


def last_words(name: str, lines: int = 8) -> str:
    try:
        text = (LOGS / f"{name}.log").read_text(errors="replace")
    except OSError:
        return f"(none in {LOGS}/{name}.log; under systemd see journalctl -u {name})"
    return "\n".join(text.splitlines()[-lines:]) or "(silence)"
