"""Sees that the kernel has loaded a module in the release's version; where it cannot, the node must be started anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write
from ansible_collections.stampworks.node.plugins.module_utils.packaging import begins
from ansible_collections.stampworks.node.plugins.module_utils.reboots import ASKED, MARKS

DOCUMENTATION = """
module: kernel_module
short_description: Load a module of the kernel, or note that only a reboot can
description:
  - Loads the module if it is not.
  - If another version of it is loaded, which cannot be taken from what uses it, notes that the node must be started
    anew; C(pending_reboot) looks for such notes.
  - Refuses where it was, and the same version is loaded still.
options:
  name: {description: The role that it is for., type: str, required: true}
  module: {description: What the kernel calls it., type: str, required: true}
  version: {description: The beginning of its version., type: str, required: true}
"""

SYS = Path("/sys/module")


def work(check: bool, name: str, module: str, version: str) -> dict[str, Any]:
    before = loaded(module)
    if before is None and not check:
        run(["modprobe", module])
    found = before if check else loaded(module)
    if found is None and not check:
        raise Refused(f"module {module} is not there after it was loaded: see dmesg on this node")
    mark, words = MARKS / name, differs(module, found, version)
    noted = mark.read_text() if mark.exists() else ""
    if not check:
        note(mark, ASKED / name, words)
    if before is None:
        drift = [f"module {module} is not loaded"] if check else [words] if words else []
        return {"changed": True, "drift": drift}
    left = f"module {module} is right, and the note that the node must be started anew is left over"
    drift = [words] if words else [left] if noted else []
    return {"changed": noted != words or (check and bool(words)), "drift": drift}


def note(mark: Path, asked: Path, words: str) -> None:
    before = {path: path.read_text() if path.exists() else "" for path in (asked, mark)}
    if words and not before[mark] and before[asked] == words:
        raise Refused(f"{words}, also since the node was started anew: see dkms status and dmesg on it")
    for path, noted in before.items():
        if noted != words:
            write(path, words.encode()) if words else path.unlink()


def loaded(module: str) -> str | None:
    """The version of a module that is loaded, empty where it has none; None where it is not."""
    folder = SYS / module
    version = folder / "version"
    return (version.read_text().strip() if version.exists() else "") if folder.is_dir() else None


def differs(module: str, found: str | None, version: str) -> str:
    if found is None or begins(found, version):
        return ""
    return f"module {module} {found or 'of the kernel itself'} is loaded, the release says {version}"


answer = answering(work)
