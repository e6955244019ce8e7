"""Waits until Slurm has heard of every node, and says which ones it has not heard of.

A node that an `up` drained, because it had to go or to get a new disk, and that is here, takes jobs again; and one that
Slurm set down because it was silent or has started again. What anybody else drained is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run

DOCUMENTATION = """
module: slurm_ready
short_description: Wait until nodes answer slurmctld
description:
  - A node that is drained or down with a reason counts as answering and is returned as C(held).
options:
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  own_reason:
    description: How the reason begins of a node that an C(up) drained.
    type: str
    required: true
  limit_s: {description: How long to wait., type: float, default: 30}
"""


SILENT = "Not responding"
"""Slurm's reason. It gives such a node back itself, but for one that falls silent again before the reason is forgotten:
that has the reason twice, which Slurm does not recognise."""
STARTED_AGAIN = "Node unexpectedly rebooted"
"""The same: whoever started it anew, an `up` among them. Slurm gives it back never."""


def work(check: bool, nodes: Sequence[str], own_reason: str, limit_s: float) -> dict[str, Any]:
    until = time.monotonic() + (0 if check else limit_s)
    while silent := unheard(nodes, states := look()):
        if check:
            return {}  # before the first real run there are no nodes to wait for
        if time.monotonic() > until:
            seen = "; ".join(f"{node} is {states.get(node, ('unknown to it', ''))[0]}" for node in silent)
            raise Refused(
                f"slurmctld has not heard of {len(silent)} of {len(nodes)} nodes within {limit_s:g} s: {seen}. "
                "What slurmd says is on the node in /var/log/stampworks/slurmd/current; "
                "clocks that differ by a minute are enough (pulumi refresh compares them)"
            )
        time.sleep(0.1)
    held = {node: states[node] for node in nodes if states[node][0].startswith(("down", "drain"))}
    back = [node for node, (_, reason) in held.items() if reason.startswith(own_reason)]
    if not check:  # a check reads it from Slurm's own output
        back += [node for node, seen in held.items() if came_back(*seen)]
    if back and not check:
        run(["scontrol", "update", f"nodename={','.join(back)}", "state=resume"])
    drift = [f"Slurm still holds {node}: {states[node][1]}" for node in back]
    left = {node: f"{state}: {reason}" for node, (state, reason) in held.items() if node not in back}
    return {"changed": bool(back), "drift": drift, "held": left}


def came_back(state: str, reason: str) -> bool:
    return state == "down" and set(reason.split(" : ")) <= {SILENT, STARTED_AGAIN}


def look() -> dict[str, tuple[str, str]]:
    """State and reason of every node."""
    done = run(["sinfo", "--noheader", "--Node", "--format=%N|%T|%E"], check=False)
    rows = (line.split("|", 2) for line in done.stdout.splitlines())
    return {row[0]: (row[1], "" if row[2] == "none" else row[2]) for row in rows if len(row) == 3}


def unheard(nodes: Collection[str], states: dict[str, tuple[str, str]]) -> list[str]:
    """Slurm marks a node that does not answer with a star, and one that never did as unknown."""
    return [node for node in nodes if (state := states.get(node, ("*", ""))[0]).endswith("*") or state == "unknown"]


answer = answering(work)
