"""The programs of a Kubernetes on this machine, which `python3 -m tools.prepare --kubernetes` has built."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stampworks.machine_room.errors import RoomError

HINT = "in the clone of stampworks: python3 -m tools.prepare --kubernetes"


def folder() -> Path:
    """Where they are, with what comes with them."""
    found = Path(sys.prefix, "kubernetes")
    if not (found / "bin").is_dir():
        raise RoomError(str(found), "the programs of Kubernetes are not built", "", HINT)
    return found.resolve()


def program(name: str) -> str:
    return str(folder() / "bin" / name)


def manifests(of: str) -> Path:
    """The folder of what an add-on's developers publish with it."""
    return folder() / "share" / of


def versions() -> dict[str, str]:
    """Of Kubernetes and of what it is extended by, as they were built."""
    found: dict[str, str] = json.loads((folder() / "versions.json").read_text())
    return found
