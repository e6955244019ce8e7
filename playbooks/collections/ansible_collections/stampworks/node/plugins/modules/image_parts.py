"""Compares what the image of a vendor brings with what the release says of it. Installs nothing."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run
from ansible_collections.stampworks.node.plugins.module_utils.packaging import INSTALLED, begins, packaging

DOCUMENTATION = """
module: image_parts
short_description: Compare the parts of a vendor's image with the release
description:
  - Reads the version of each part where the part itself says it, and that of any other name from the package manager.
  - Refuses, with all of them at once, when a part is missing or has another version.
options:
  release: {description: The release that says so., type: str, required: true}
  parts:
    description: By role the parts of the image, each with the beginning of its version.
    type: dict
    required: true
"""

SYS = Path("/sys/module")
INSTALLER = Path("/opt/amazon/efa_installed_packages")
FI_INFO = Path("/opt/amazon/efa/bin/fi_info")
CUDA = Path("/usr/local/cuda/version.json")
HINT = "lock the image that the release is of (stampworks lock), and start the node from it (stampworks roll)"
SAYS_S = 30
"""How long a program may take to say its version."""


def work(check: bool, release: str, parts: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    packages = packaging().installed()

    def found(part: str) -> str:
        if part in READ:
            return READ[part]()
        state, version = packages.get(part, ("", ""))
        return version if state == INSTALLED else ""

    said = [
        f"{role}: {words}"
        for role, of_role in parts.items()
        for part, version in of_role.items()
        if (words := differs(part, found(part), version, release))
    ]
    if said and not check:
        raise Refused(f"the node's image is another one than the release's: {'; '.join(said)}: {HINT}")
    return {"changed": bool(said), "drift": said}


def differs(part: str, found: str, version: str, release: str) -> str:
    if not found:
        return f"it has no {part}, release {release} says {version}"
    return "" if begins(found, version) else f"{part} is {found}, release {release} says {version}"


def module(name: str) -> str:
    """The version of a module of the kernel: of the one that is loaded, else of the one that would be."""
    loaded = SYS / name / "version"
    if loaded.exists():
        return loaded.read_text().strip()
    if shutil.which("modinfo") is None:  # a node without modules of its own
        return ""
    return run(["modinfo", "--field", "version", name], check=False).stdout.strip()


def installer() -> str:
    """The version of the EFA installer, which lists there what it has installed."""
    said = INSTALLER.read_text() if INSTALLER.exists() else ""
    return _first(r"EFA installer version: (\S+)", said)


def libfabric() -> str:
    said = run([str(FI_INFO), "--version"], timeout=SAYS_S, check=False).stdout if FI_INFO.exists() else ""
    return _first(r"libfabric: (\S+)", said)


def cuda() -> str:
    """The version of the CUDA that is the default one."""
    try:
        return str(json.loads(CUDA.read_text())["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _first(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    return found[1] if found else ""


READ: Mapping[str, Callable[[], str]] = {
    "nvidia": lambda: module("nvidia"),
    "efa": lambda: module("efa"),
    "efa-installer": installer,
    "libfabric": libfabric,
    "cuda": cuda,
}
"""Parts that say their version themselves; all others are packages."""

answer = answering(work)
