"""Keeps the packages of a role in the release's versions: pinned before they are installed, and held afterwards."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.debian import (
    GONE,
    INSTALL,
    INSTALLED,
    QUIET,
    begins,
    installed,
    refresh,
)
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write

DOCUMENTATION = """
module: pinned
short_description: Keep packages in the versions of the release
description:
  - Pins and installs packages, and holds them, so that no upgrade of anybody's brings another version.
  - Refuses, before anything is installed, when the repositories of the node do not have a version.
options:
  name: {description: The role that they are for., type: str, required: true}
  packages:
    description: By name the beginning of the version; empty for whichever the suite has.
    type: dict
    required: true
  along:
    description: Patterns of the names of packages that come along and must have the version of the first package.
    type: list
    elements: str
    default: []
  kernel:
    description: >-
      The beginning of the version of the kernel that modules are built for. With it the headers of the kernel that
      runs are installed, too, and kernels are held.
    type: str
    default: ""
"""

PREFERENCES = Path("/etc/apt/preferences.d")
PRIORITY = 1001
"""Above 1000 apt also goes back to an older version."""
KERNELS = re.compile(r"linux-(image|headers)-.+")


def work(check: bool, name: str, packages: Mapping[str, str], along: Sequence[str], kernel: str) -> dict[str, Any]:
    runs = platform.release()
    if kernel and not begins(runs, kernel):
        raise Refused(
            f"{name}: kernel {runs} runs, the release builds its modules for {kernel}: "
            "start the node from an image of the release"
        )
    wanted = {**packages, f"linux-headers-{runs}": ""} if kernel else dict(packages)
    path, text = PREFERENCES / f"stampworks-{name}", pins(packages, along)
    unpinned = [] if path.exists() and path.read_text() == text else [f"{path} differs"]
    differing = differences(wanted, installed())
    if not check:
        if unpinned:
            write(path, text.encode())
        if differing:
            put_right(wanted, list(differing))
    holds = run(["apt-mark", "showhold"]).stdout.split()
    loose = [each for each in to_hold(wanted, kernel, installed()) if each not in holds]
    if loose and not check:
        run(["apt-mark", "hold", *loose])
    drift = [*unpinned, *differing.values(), *(f"package {each} is not held" for each in loose)]
    return {"changed": bool(drift), "drift": drift}


def pins(packages: Mapping[str, str], along: Sequence[str]) -> str:
    """What apt's preferences say of them; one without a version is the suite's affair."""
    named = [(package, version) for package, version in packages.items() if version]
    patterns = [(each, named[0][1]) for each in along] if named else []
    stanzas = [
        f"Package: {package}\nPin: version {version}*\nPin-Priority: {PRIORITY}\n"
        for package, version in (*named, *patterns)
    ]
    return "\n".join(["# Written by Stampworks.\n", *stanzas])


def differences(wanted: Mapping[str, str], found: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What is wrong with each package that is not as the release says, in words."""
    words = {}
    for name, version in wanted.items():
        state, has = found.get(name, ("", ""))
        if state != INSTALLED:
            words[name] = f"package {name} is {'missing' if state in GONE else state}"
        elif not begins(has, version):
            words[name] = f"package {name} is {has}, the release says {version}"
    return words


def to_hold(wanted: Iterable[str], kernel: str, found: Mapping[str, tuple[str, str]]) -> list[str]:
    """What must be held of what is there: the role's own, and every kernel where modules are built for one."""
    kernels = [name for name in found if kernel and KERNELS.fullmatch(name)]
    return [name for name in dict.fromkeys([*wanted, *kernels]) if found.get(name, ("",))[0] == INSTALLED]


def put_right(wanted: Mapping[str, str], names: Sequence[str]) -> None:
    refresh()
    offered = offers(run(["apt-cache", "madison", *names]).stdout)
    chosen = {name: next((each for each in offered.get(name, []) if begins(each, wanted[name])), "") for name in names}
    if lacking := [name for name, version in chosen.items() if not version]:
        raise Refused("; ".join(_lacking(name, wanted[name], offered.get(name, [])) for name in lacking))
    exactly = [f"{name}={version}" for name, version in chosen.items()]
    run([*INSTALL, "--allow-change-held-packages", *exactly], timeout=450, env=QUIET)
    if left := differences(wanted, installed()):
        raise Refused(f"after an installation: {'; '.join(left.values())}")


def offers(madison: str) -> dict[str, list[str]]:
    """The versions that the repositories have of each package, the newest first."""
    found: dict[str, list[str]] = {}
    for line in madison.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and not fields[2].endswith("Sources"):
            found.setdefault(fields[0], []).append(fields[1])
    return found


def _lacking(name: str, version: str, offered: Sequence[str]) -> str:
    has = f"have {', '.join(dict.fromkeys(offered))}" if offered else "have none of it"
    wanted = f"{name} {version}".strip()
    return f"{wanted} of the release is in no repository of this node: they {has}: add the one that has it"


answer = answering(work)
