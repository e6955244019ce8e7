"""Keeps the packages that a node's image was made with, in the versions it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, write
from ansible_collections.stampworks.node.plugins.module_utils.packaging import GONE, INSTALLED, Packaging, packaging

DOCUMENTATION = """
module: packages
short_description: Keep the packages of the image installed
description:
  - With record, notes every installed package that the repositories of this machine have, with its version.
  - With install, installs those that are missing, in whichever version the repositories have.
  - Without either, installs from the repositories what is missing or has another version than noted.
options:
  install: {description: Packages that the image is made with., type: list, elements: str, default: []}
  record: {description: Note what is installed instead of putting it right., type: bool, default: false}
"""

ALL_S = 530
"""For all packages of all roles; as long as a task may take, less what comes before."""
RECORD = Path("/var/lib/stampworks/packages.json")


def work(check: bool, record: bool, install: Sequence[str] = ()) -> dict[str, Any]:
    manager = packaging()
    if install:
        return bring(manager, check, install)
    if record:
        return note(manager, check)
    if not RECORD.exists():
        raise Refused(f"which packages belong here: there is no {RECORD}, which the image brings")
    noted = json.loads(RECORD.read_text())
    differing = differences(noted, manager.installed())
    if differing and not check:
        put_right(manager, noted, list(differing))
    return {"changed": bool(differing), "drift": list(differing.values())}


def bring(manager: Packaging, check: bool, names: Sequence[str]) -> dict[str, Any]:
    """All of them at once: every run of a package manager costs seconds."""
    found = manager.installed()
    missing = [name for name in names if found.get(name, ("",))[0] != INSTALLED]
    if missing and not check:
        manager.refresh()
        manager.install(dict.fromkeys(missing, ""), limit_s=ALL_S)
    return {"changed": bool(missing), "drift": [f"package {name} is missing" for name in missing]}


def note(manager: Packaging, check: bool) -> dict[str, Any]:
    offered, found = manager.offered(), manager.installed()
    noted = {name: version for name, (state, version) in found.items() if state == INSTALLED and name in offered}
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


def put_right(manager: Packaging, noted: Mapping[str, str], names: Sequence[str]) -> None:
    manager.refresh()
    manager.install({name: noted[name] for name in names}, again=True)
    if left := differences(noted, manager.installed()):
        raise Refused(f"after an installation: {'; '.join(left.values())}")


answer = answering(work)
