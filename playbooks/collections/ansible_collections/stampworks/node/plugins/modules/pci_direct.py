"""Sees that GPUs and NICs reach each other directly: no access control between them, no addresses translated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run, write
from ansible_collections.stampworks.node.plugins.module_utils.reboots import MARKS

DOCUMENTATION = """
module: pci_direct
short_description: Have PCI devices reach each other directly
description:
  - Turns Access Control Services off where they are on.
  - If addresses of a GPU or a NIC are translated, notes that the node must be started anew; C(pending_reboot) looks for
    such notes. Fails where the kernel was told already to let them pass.
options:
  program: {description: Turns them off; with --look it says where they are on., type: str, required: true}
"""

GROUPS = Path("/sys/kernel/iommu_groups")
DEVICES = Path("/sys/bus/pci/devices")
CMDLINE = Path("/proc/cmdline")
PASSES = "iommu=pt"
CLASSES = ("0x02", "0x03")
"""Beginnings of the PCI classes that must reach each other: networks and InfiniBand, displays and 3D."""
MARK = MARKS / "pci"


def work(check: bool, program: str) -> dict[str, Any]:
    controlled = run([program, "--look"]).stdout.splitlines()
    if controlled and not check:
        run([program])
    found = sorted(translated())
    told = PASSES in CMDLINE.read_text().split()
    if found and told:
        raise Refused(
            f"the kernel was started with {PASSES} and translates addresses of {', '.join(found)} still: see the "
            "firmware's settings of the IOMMU, and what else stands in /proc/cmdline"
        )
    words = f"addresses of {', '.join(found)} are translated: the kernel was not started with {PASSES}" if found else ""
    noted = MARK.read_text() if MARK.exists() else ""
    if not check and noted != words:
        write(MARK, words.encode()) if words else MARK.unlink()
    left = "nothing is translated, and the note that the node must be started anew is left over"
    drift = [*controlled, *([words] if words else [left] if noted else [])]
    return {"changed": bool(controlled) or noted != words or (check and bool(words)), "drift": drift}


def translated() -> Iterator[str]:
    """GPUs and NICs that an IOMMU gives addresses of their own; none where there is no IOMMU at work."""
    for group in GROUPS.glob("*"):
        if (group / "type").read_text().strip() == "identity":
            continue
        for device in (group / "devices").glob("*"):
            if (DEVICES / device.name / "class").read_text().startswith(CLASSES):
                yield device.name


answer = answering(work)
