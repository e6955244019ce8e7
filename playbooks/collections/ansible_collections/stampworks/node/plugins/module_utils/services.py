"""Services under runit or systemd: define, start, stop, and see whether one runs with another configuration."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, run, write

RUNIT = Path("/etc/stampworks/services")
SYSTEMD = Path("/etc/systemd/system")
STARTED = Path("/var/lib/stampworks/services")
"""What was in the files that a service reads when it was started last, as sha256sum says it; by name."""
LOGS = Path("/var/log/stampworks")
LOG_BYTES, LOG_FILES = 1_000_000, 4
"""How large the file of a service's words may grow, and how many earlier ones stay; the journal has its own limits."""
AWAIT_PORT = "/usr/local/libexec/stampworks/await-port"
WAIT_S = 20
RUNIT_RUNS = 1
STALE = "runs with what it was started with before a change"
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
    configuration: tuple[str, ...] = ()
    """Files that it reads when it starts."""
    before_mounts: bool = False
    """Starts before file systems are mounted that are somewhere else; under systemd, since runit mounts nothing."""
    follows: tuple[str, ...] = ()
    """Services of packages that start before it, where the node has them; under systemd, which alone knows them."""

    @property
    def before(self) -> list[list[str]]:
        """What must have ended well before the command starts."""
        made = [["install", "-d", "-m", "750", "-o", owner, "-g", owner, path] for path, owner in self.directories]
        awaited = [[AWAIT_PORT, *address.rsplit(":", 1)] for address in self.awaits]
        return made + awaited + ([self.note] if self.configuration else [])

    @property
    def note(self) -> list[str]:
        """Says what it is started with: each start does, whoever asked for it. Never keeps it from starting."""
        files, record = shlex.join(self.configuration), shlex.quote(str(STARTED / self.name))
        return ["sh", "-c", f"install -d -m 700 {STARTED}; sha256sum {files} >{record} 2>/dev/null; true"]


class Supervisor(Protocol):
    def define(self, service: Service, check: bool) -> bool:
        """Makes the service known, stopped and off at boot if it is new; says whether anything changed."""

    def names(self) -> list[str]:
        """The services that are defined here."""

    def running(self, name: str) -> str:
        """What tells this run of it from every other one; empty when it does not run."""

    def enabled(self, name: str) -> bool: ...

    def enable(self, name: str, on: bool) -> None: ...

    def control(self, name: str, verb: str) -> None:
        """start, stop, restart or reload, done when it returns."""


class Runit:
    ULIMIT: Mapping[str, str] = {"MEMLOCK": "l", "NOFILE": "n"}

    def define(self, service: Service, check: bool) -> bool:
        folder = RUNIT / service.name
        scripts = {"run": self.run_script(service), "log/run": self.log_script(service.name)}
        if all(self._in_place(folder / name, text) for name, text in scripts.items()):
            return False
        if not check:
            # a new one is complete before the supervisor sees it
            place = folder if folder.exists() else RUNIT.parent / f".{service.name}.new"
            for name, text in scripts.items():
                write(place / name, text.encode(), 0o755)
            if place != folder:
                write(place / "down", b"")
                RUNIT.mkdir(parents=True, exist_ok=True)
                place.rename(folder)
        return True

    @staticmethod
    def _in_place(script: Path, text: str) -> bool:
        return script.exists() and script.read_text() == text and os.access(script, os.X_OK)

    @classmethod
    def run_script(cls, service: Service) -> str:
        lines = ["#!/bin/sh", OURS, "exec 2>&1"]
        lines += [f"{shlex.join(argv)} || exit 1" for argv in service.before]
        for limit, value in service.limits:
            # a node inside a container may not raise its limits: then what it has must do
            lines.append(f"ulimit -{cls.ULIMIT[limit]} {shlex.quote(value)} 2>/dev/null")
        if service.once:
            return "\n".join([*lines, shlex.join(service.command), f"exec sv down {RUNIT / service.name}", ""])
        return "\n".join([*lines, f"exec {shlex.join(service.command)}", ""])

    @staticmethod
    def log_script(name: str) -> str:
        """What reads the service's words: it starts a new file when one is full, and removes the oldest."""
        folder = f"{LOGS}/{shlex.quote(name)}"
        settings = f"printf 's{LOG_BYTES}\\nn{LOG_FILES}\\n' >{folder}/config"
        return f"#!/bin/sh\n{OURS}\nmkdir -p {folder}\n{settings}\nexec svlogd -tt {folder}\n"

    def names(self) -> list[str]:
        return sorted(path.name for path in RUNIT.glob("*") if path.is_dir())

    def running(self, name: str) -> str:
        """From the supervisor's own record: when it was started, its pid and its state."""
        try:
            status = (RUNIT / name / "supervise" / "status").read_bytes()
        except OSError:
            return ""
        started, pid, state = status[:12], status[12:16], status[19]
        return (started + pid).hex() if any(pid) and state == RUNIT_RUNS else ""

    def enabled(self, name: str) -> bool:
        return (RUNIT / name).exists() and not (RUNIT / name / "down").exists()

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
        before = self.running(name)
        run(["sv", "-w", str(WAIT_S), command, str(folder)], timeout=WAIT_S + 5)
        until = time.monotonic() + WAIT_S
        # sv counts in seconds: of one that was started in this very second it believes that it was restarted already
        while verb == "restart" and before and self.running(name) == before and time.monotonic() < until:
            time.sleep(0.05)

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
            new = not path.exists()
            write(path, text.encode())
            run(["systemctl", "daemon-reload"])
            if new:  # its package may have started one of this name, which has failed without what it needs
                run(["systemctl", "disable", "--now", "--quiet", service.name])
                run(["systemctl", "reset-failed", service.name], check=False)
        return True

    @staticmethod
    def unit(service: Service) -> str:
        """As runit does it: what ends is started again for ever, and only itself is ended, since jobs outlive slurmd.

        A directory on a volume is waited for: before it is mounted there is another one, empty.
        """

        def line(argv: Sequence[str]) -> str:
            return " ".join('"' + word.translate(SYSTEMD_QUOTED) + '"' for word in argv)

        others = " ".join(f"{each}.service" for each in service.follows)
        return "\n".join(
            [
                OURS,
                "[Unit]",
                f"Description=Stampworks: {service.name}",
                "After=network-online.target",
                "Wants=network-online.target",
                "StartLimitIntervalSec=0",
                *([f"After={others}", f"Wants={others}"] if others else []),
                *(f"RequiresMountsFor={line([path])}" for path, _ in service.directories),
                *(["Before=remote-fs-pre.target", "Wants=remote-fs-pre.target"] if service.before_mounts else []),
                "[Service]",
                *(f"ExecStartPre={line(argv)}" for argv in service.before),
                f"ExecStart={line(service.command)}",
                *(f"Limit{limit}={'infinity' if value == 'unlimited' else value}" for limit, value in service.limits),
                *(
                    ["Type=oneshot", "RemainAfterExit=yes"]
                    if service.once
                    else ["Restart=always", "RestartSec=1", "KillMode=process"]
                ),
                "TasksMax=infinity",
                "Delegate=yes",
                "[Install]",
                "WantedBy=multi-user.target",
                "",
            ]
        )

    def names(self) -> list[str]:
        units = (path for path in SYSTEMD.glob("*.service") if path.is_file())  # links may lead nowhere
        return sorted(path.stem for path in units if path.read_text(errors="replace").startswith(OURS))

    def running(self, name: str) -> str:
        show = ["systemctl", "show", "--property=ActiveState,InvocationID", name]
        found = dict(line.split("=", 1) for line in run(show).stdout.splitlines())
        return found["InvocationID"] if found.get("ActiveState") == "active" else ""

    def enabled(self, name: str) -> bool:
        return run(["systemctl", "is-enabled", "--quiet", name], check=False).returncode == 0

    def enable(self, name: str, on: bool) -> None:
        run(["systemctl", "enable" if on else "disable", "--quiet", name])

    def control(self, name: str, verb: str) -> None:
        run(["systemctl", verb, name], timeout=WAIT_S + 70)


def supervisor() -> Supervisor:
    """What supervises services on this node."""
    return Systemd() if Path("/run/systemd/system").is_dir() else Runit()


def outdated(name: str, configuration: Sequence[str]) -> bool:
    """Whether a service was last started with another configuration than there is now.

    Asked of the node itself, so that a run which was interrupted between writing and restarting is not forgotten; and
    not by times of files, which say nothing after the clock was set.
    """
    record = STARTED / name
    return bool(configuration) and not (record.exists() and record.read_text() == digests(configuration))


def digests(configuration: Sequence[str]) -> str:
    """What sha256sum says of these files now; nothing of one that does not exist."""
    found = ((path, Path(path)) for path in configuration)
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {path}\n" for path, file in found if file.exists()
    )


def last_words(name: str, lines: int = 8) -> str:
    if isinstance(supervisor(), Systemd):
        text = run(["journalctl", "--unit", name, "--lines", str(lines), "--output", "cat"], check=False).stdout
    else:
        try:
            text = (LOGS / name / "current").read_text(errors="replace")
        except OSError:
            return f"(none in {LOGS}/{name}/current)"
    return "\n".join(text.splitlines()[-lines:]) or "(silence)"
