"""Packages of dpkg or rpm: list them, and remove those that were not there."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from stampworks.clouds.hosts.keeping.programs import last_line, run

KERNELS = re.compile(r"linux-(image|modules)-.+|kernel[\d.]*(-core|-modules[a-z-]*)?\.[^.]+")
INFO = Path("/var/lib/dpkg/info")
DPKG_QUERY = ("dpkg-query", "--show", "--showformat")
DPKG_ROW = "${binary:Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n"
RPM_QUERY = ("rpm", "--query", "--all", "--queryformat", "%{NAME}.%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n")
INSTALLED, SETTINGS = "installed", "config-files"
WHOLE = (INSTALLED, "triggers-awaited", "triggers-pending")
"""States of a package that is there."""
REMOVE_S = 600
LOCK_S = 120

Packages = dict[str, list[str]]
"""Version, wanted state and state, by name."""


def packages() -> Packages:
    """Return the packages of which there is something."""
    if shutil.which("dpkg-query"):
        rows = [line.split(" ") for line in run([*DPKG_QUERY, DPKG_ROW]).stdout.splitlines()]
        return {row[0]: row[1:] for row in rows if len(row) == 4 and row[3] != "not-installed"}
    found: Packages = {}
    for line in sorted(run(RPM_QUERY).stdout.splitlines()):
        name, _, version = line.partition(" ")
        if not name.startswith("gpg-pubkey."):  # a key
            earlier = found.get(name, [""])[0]  # several kernels are there at once
            found[name] = [f"{earlier} {version}".strip(), "install", INSTALLED]
    return found


def installed(found: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the versions of the packages that are there whole."""
    return {name: row[0] for name, row in found.items() if row[2] in WHOLE}


def files_of(names: Iterable[str]) -> set[str]:
    """Return the paths that packages have brought."""
    wanted = [*names]
    if not wanted:
        return set()
    listing = ["dpkg-query", "--listfiles"] if INFO.is_dir() else ["rpm", "--query", "--list"]
    return {line for line in run([*listing, *wanted]).stdout.splitlines() if line.startswith("/")}


def differences(before: Packages, now: Packages) -> list[str]:
    """Return the differences of packages in words."""
    old, new = installed(before), installed(now)
    words = [f"{name} {new[name]} is new" for name in new.keys() - old.keys()]
    words += [f"{name} {old[name]} is gone" for name in old.keys() - new.keys()]
    words += [f"{name} was {old[name]} and is {new[name]}" for name in changed(before, now)]
    return words + [f"settings of {name} are new" for name in now.keys() - before.keys() - new.keys()]


def changed(before: Packages, now: Packages) -> list[str]:
    """Return packages that have another version."""
    old, new = installed(before), installed(now)
    return sorted(name for name in old.keys() & new.keys() if old[name] != new[name])


def kept(new: Iterable[str], modules: Mapping[str, str]) -> dict[str, str]:
    """Return packages that must stay, with the reason, given the files of new modules that are in use."""
    reasons = {name: "a kernel: the machine may boot it" for name in new if KERNELS.fullmatch(name)}
    for module, path in modules.items():
        asked = ["dpkg-query", "--search", path] if INFO.is_dir() else ["rpm", "--query", "--file", path]
        answer = run(asked).stdout if path else ""
        stem = module.partition("_")[0]
        for name in new:
            if f"{name}:" in answer or (f"{stem}-dkms" in name and "/dkms/" in path):
                reasons.setdefault(name, f"a driver: its module {module} is in use")
    return reasons


def give_back(before: Packages, stay: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Remove packages that were not there. Return those that are left, and those that could not be removed, with the
    reasons."""
    now = packages()
    left, failed = dict(stay), dict[str, str]()
    if not INFO.is_dir():
        new = sorted(installed(now).keys() - installed(before).keys() - stay.keys())
        done = run(["rpm", "--erase", *new], timeout_s=REMOVE_S) if new else None
        still = installed(packages()).keys() & {*new}
        return left, {name: last_line(done) for name in still if done}
    new = sorted(name for name in now if name not in before or _came(before[name], now[name]))
    going = [name for name in new if name not in stay]
    said = _dpkg("--remove", [name for name in going if now[name][2] != SETTINGS])
    now = packages()
    settings = [name for name in going if name not in before and now.get(name, ["", "", ""])[2] == SETTINGS]
    for name in settings:
        # scripts that run at a purge know no protected path, and remove folders of data
        for script in {f"{name}.postrm", f"{name.partition(':')[0]}.postrm"}:
            (INFO / script).unlink(missing_ok=True)
    said = _dpkg("--purge", settings) or said
    run(["dpkg", "--force-confold", "--configure", "--pending"], timeout_s=REMOVE_S)  # triggers of a killed attempt
    now = packages()
    _restore_marks(before, now)
    for name in going:
        if name in installed(now) and stay:
            left[name] = "a package that stays needs it"
        elif name in installed(now):
            failed[name] = said or "dpkg keeps it"
    return left, failed


def bring_back(before: Packages) -> dict[str, str]:
    """Install packages that are gone since. Return those that cannot be had, with the reason."""
    gone = sorted(installed(before).keys() - installed(packages()).keys())
    if not gone:
        return {}
    argv = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "--no-remove", *gone]
    done = run(argv if INFO.is_dir() else ["dnf", "--quiet", "--assumeyes", "install", *gone], timeout_s=REMOVE_S)
    missing = {*gone} - installed(packages()).keys()
    return {name: f"removed since, and it cannot be installed again: {last_line(done)}" for name in missing}


def _came(before: list[str], now: list[str]) -> bool:
    return before[2] == SETTINGS and now[2] != SETTINGS


def _dpkg(verb: str, names: list[str]) -> str:
    """Call dpkg for packages at once, and return its last words if it failed."""
    until = time.monotonic() + LOCK_S
    while names:
        done = run(["dpkg", "--abort-after=99999", "--force-remove-reinstreq", verb, *names], timeout_s=REMOVE_S)
        if "locked by another process" not in done.stderr or time.monotonic() > until:
            return _first_error(done.stderr) or last_line(done) if done.returncode else ""
        time.sleep(2)
    return ""


def _first_error(errors: str) -> str:
    """Return dpkg's first error with its reason: those after it often follow from it."""
    lines = [line.strip() for line in errors.splitlines()]
    places = [place for place, line in enumerate(lines) if line.startswith("dpkg: error processing")]
    return " ".join(lines[places[0] : places[0] + 2]) if places else ""


def _restore_marks(before: Packages, now: Packages) -> None:
    """Hold again, or release, packages that were there."""
    marks = [f"{name} {before[name][1]}\n" for name in before.keys() & now.keys() if before[name][1] != now[name][1]]
    if marks:
        run(["dpkg", "--set-selections"], "".join(marks))
