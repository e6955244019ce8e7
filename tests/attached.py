"""What nodes find that was made apart from them, as on the local cloud, where names alone say it."""

from __future__ import annotations

from stampworks.plan import Attached, Mount, Plan


def attached(plan: Plan) -> Attached:
    return Attached(tuple(Mount(f"/exports/{each.name}", each.mount) for each in plan.storage))
