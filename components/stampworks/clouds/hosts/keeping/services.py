"""Services of systemd or runit: list them, end new ones, and start those again that ran."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stampworks.clouds.hosts.keeping.places import SERVICES
from stampworks.clouds.hosts.keeping.programs import run

SYSTEMD = Path("/run/systemd/system")
KINDS = "--type=service,socket,timer,path"
PASSING = ("generated", "transient", "alias", "indirect")
"""States of unit files that nobody has set."""
STOP_S = 120

Services = dict[str, list[Any]]
"""State of the unit file (enabled, disabled, ...), and whether it runs; by name."""


def services() -> Services:
    """Return the services that are defined here."""
    if not SYSTEMD.is_dir():
        return {folder.name: _of_runit(folder) for folder in sorted(Path(SERVICES).glob("*")) if folder.is_dir()}
    plain = ["--no-legend", "--no-pager", "--plain", "--full", KINDS]
    files = [line.split() for line in run(["systemctl", "list-unit-files", *plain]).stdout.splitlines()]
    units = [line.split() for line in run(["systemctl", "list-units", "--state=active", *plain]).stdout.splitlines()]
    running = {row[0] for row in units if len(row) > 3 and row[3] in ("running", "listening", "waiting")}
    found = {row[0]: [row[1], row[0] in running] for row in files if len(row) > 1 and row[1] not in PASSING}
    for name in running:  # instances of templates, and what has no file
        found.setdefault(name, ["", True])
    return found


def _of_runit(folder: Path) -> list[Any]:
    status = b""
    with contextlib.suppress(OSError):
        status = (folder / "supervise/status").read_bytes()
    return ["disabled" if (folder / "down").exists() else "enabled", status[19:20] == b"\1"]


def new_services(before: Services, now: Services) -> list[str]:
    """Return services with files that were not there, and the instances of such templates."""
    defined = {name for name, row in now.items() if row[0] and name not in before}
    return sorted(name for name in now if name not in before and {name, _template(name)} & defined)


def enabled_since(before: Services, now: Services) -> list[str]:
    """Return services that were there, did not run, and are now enabled."""
    both = before.keys() & now.keys()
    return sorted(name for name in both if not before[name][1] and before[name][0] != now[name][0] == "enabled")


def differences(before: Services, now: Services) -> list[str]:
    """Return the differences of services in words."""
    words = [f"{name} is new" for name in new_services(before, now)]
    for name, (state, running) in before.items():
        if not state:
            continue  # without a file of its own it comes and goes
        if name not in now:
            words.append(f"{name} is gone")
        elif now[name][0] != state:
            words.append(f"{name} was {state} and is {now[name][0]}")
        elif running and not now[name][1]:
            words.append(f"{name} ran and does not run")
    return words


def end(names: Iterable[str]) -> list[str]:
    """Stop services. Return the reasons of those that still run."""
    stopped = [name for name in names if "@." not in name]
    if not stopped:
        return []
    if SYSTEMD.is_dir():
        run(["systemctl", "stop", "--", *stopped], timeout_s=STOP_S)
    else:
        folders = [Path(SERVICES) / name for name in stopped if (Path(SERVICES) / name / "supervise").is_dir()]
        for folder in folders:
            (folder / "down").touch()  # a supervisor that starts anew leaves it alone
        run(["sv", "-w", "20", "force-stop", *map(str, folders)], timeout_s=STOP_S)
    now = services()
    return [f"{name} still runs" for name in stopped if now.get(name, ["", False])[1]]


def start_again(before: Services) -> None:
    """Have systemd read its files, and start services that ran, and have stopped since."""
    if not SYSTEMD.is_dir():
        return
    run(["systemctl", "daemon-reload"])
    now = services()
    still: Mapping[str, list[Any]] = {name: row for name, row in before.items() if row[1] and row[0] == "enabled"}
    for name in still:
        if name in now and not now[name][1]:
            run(["systemctl", "start", "--", name], timeout_s=STOP_S)


def _template(name: str) -> str:
    """Return the template of an instance; a session of a user is an instance, too."""
    stem, at, rest = name.partition("@")
    return f"{stem}@.{rest.rpartition('.')[2]}" if at else name
