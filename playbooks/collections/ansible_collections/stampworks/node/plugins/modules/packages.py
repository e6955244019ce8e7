"""Keeps the packages that a node's image was made with, in the versions it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.debian import (
    GONE,
    INSTALL,
    INSTALLED,
    QUIET,
    installed,
    refresh,
)
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write

DOCUMENTATION = """
module: packages
short_description: Keep the packages of the image installed
description:
  - With record, notes every installed package that the repositories of this machine have, with its version.
  - Without, installs from the repositories what is missing or has another version than noted.
options:
  record: {description: Note what is installed instead of putting it right., type: bool, default: false}
"""

RECORD = Path("/var/lib/stampworks/packages.json")
LISTS = Path("/var/lib/apt/lists")
REINSTALL = [*INSTALL, "--reinstall", "-o", "Dpkg::Options::=--force-confmiss"]


def work(check: bool, record: bool) -> dict[str, Any]:
    if record:
        return note(check)
    if not RECORD.exists():
        raise Refused(f"which packages belong here: there is no {RECORD}, which the image brings")
    noted = json.loads(RECORD.read_text())
    differing = differences(noted, installed())
    if differing and not check:
        put_right(noted, list(differing))
    return {"changed": bool(differing), "drift": list(differing.values())}


def note(check: bool) -> dict[str, Any]:
    offered = {
        line.split()[1]
        for path in LISTS.glob("*_Packages")
        for line in path.read_text(errors="replace").splitlines()
        if line.startswith("Package: ")
    }
    noted = {name: version for name, (state, version) in installed().items() if state == INSTALLED and name in offered}
    text = json.dumps(noted, indent=1).encode()
    changed = not RECORD.exists() or RECORD.read_bytes() != text
    if changed and not check:
        write(RECORD, text)
    return {"changed": changed}


def differences(noted: Mapping[str, str], found: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What is wrong with each package that is not as noted, in words."""
    words = {}
    for name, version in noted.items():
        state, has = found.get(name, ("", ""))
        if state in GONE:
            words[name] = f"package {name} is missing"
        elif state != INSTALLED:
            words[name] = f"package {name} is {state}"
        elif has != version:
            words[name] = f"package {name} is {has}, the image had {version}"
    return words


def put_right(noted: Mapping[str, str], names: list[str]) -> None:
    refresh()
    run([*REINSTALL, *(f"{name}={noted[name]}" for name in names)], timeout=450, env=QUIET)
    if left := differences(noted, installed()):
        raise Refused(f"after an installation: {'; '.join(left.values())}")


answer = answering(work)
