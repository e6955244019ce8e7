"""Programs of a Kubernetes on this machine, as `python3 -m tools.prepare --kubernetes` has built them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stampworks.machine_room.errors import RoomError

HINT = "in the clone of stampworks: python3 -m tools.prepare --kubernetes"


def folder() -> Path:
    """Return the folder of the programs and the files beside them."""
    found = Path(sys.prefix, "kubernetes")
    if not (found / "bin").is_dir():
        raise RoomError(str(found), "the programs of Kubernetes are not built", "", HINT)
    return found.resolve()


def program(name: str) -> str:
    """Return the path of a program that `tools.prepare` builds. It may be missing."""
    return str(folder() / "bin" / name)


def manifests(of: str) -> Path:
    """Return the folder of the manifests that an add-on's developers publish."""
    return folder() / "share" / of


def versions() -> dict[str, str]:
    """Return the versions of Kubernetes and its extensions in the build."""
    found: dict[str, str] = json.loads((folder() / "versions.json").read_text())
    return found
