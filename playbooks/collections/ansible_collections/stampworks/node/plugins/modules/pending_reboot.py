"""Says whether a node must be started anew, and refuses where that would end a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering
from ansible_collections.stampworks.node.plugins.module_utils.reboots import marked

DOCUMENTATION = """
module: pending_reboot
short_description: Look whether a role has noted that the node must be started anew
description:
  - Returns C(pending_reboot) with C(needed) and C(why); it starts nothing itself.
  - Fails where a job runs on the node.
options: {}
"""

PROC = Path("/proc")
STEP = "slurmstepd"
"""Slurm's process of each step of a job, as the kernel names it."""
KEEPER = b"infinity"
"""Argument of the step that runs nothing: it keeps the control groups of all, from the first start of slurmd on."""


def work(check: bool) -> dict[str, Any]:
    why = "; ".join(f"{role}: {words}" for role, words in marked().items())
    if why and check:
        return {"changed": True, "drift": [f"must be started anew: {why}"], **fact(False, why)}
    if why and (steps := running()):
        raise Refused(
            f"must be started anew ({why}), and runs {steps} step{'s' if steps > 1 else ''} of jobs, which that would "
            "end: drain it, wait until it is idle, and try again"
        )
    return {"changed": False, **fact(bool(why), why)}


def fact(needed: bool, why: str) -> dict[str, Any]:
    return {"ansible_facts": {"pending_reboot": {"needed": needed, "why": why}}}


def running() -> int:
    """Return the number of running job steps."""
    found = 0
    for process in PROC.glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == STEP:
                found += KEEPER not in (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
    return found


answer = answering(work)
