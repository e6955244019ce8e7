"""Mounts of nodes that were created apart from them, as on the local cloud, where only names identify them."""

from __future__ import annotations

from stampworks.plan import Attached, Mount, Plan


def attached(plan: Plan) -> Attached:
    return Attached(tuple(Mount(f"/exports/{each.name}", each.mount) for each in plan.storage))
