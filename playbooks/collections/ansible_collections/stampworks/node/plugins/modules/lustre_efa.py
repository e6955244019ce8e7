"""Has Lustre use EFA interfaces of a node, with the program that does the same at every boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import answering, run

DOCUMENTATION = """
module: lustre_efa
short_description: Have Lustre use EFA interfaces of a node
description:
  - Runs the program that the role lustre_efa has written, and says what that one has found.
options:
  interfaces: {description: How many of them., type: int, required: true}
"""

PROGRAM = Path("/usr/local/libexec/stampworks/lustre-efa")


def work(check: bool, interfaces: int) -> dict[str, Any]:
    if check and not PROGRAM.exists():
        return {"changed": True, "drift": ["Lustre does not use EFA"]}
    done = run([str(PROGRAM), *(["--look"] if check else []), str(interfaces)], timeout=300)
    drift = done.stdout.splitlines()
    return {"changed": bool(drift), "drift": drift}


answer = answering(work)
