"""The place of a local cluster."""

from __future__ import annotations

import pulumi

from stampworks.plan import Plan
from stampworks.resources import LocalRoom


def create(name: str, *, plan: Plan, opts: pulumi.ResourceOptions) -> LocalRoom:
    """Create the room, which contains all parts of the cluster, so that none outlives it."""
    return LocalRoom(name, cluster=plan.name, opts=opts)


def cost_tags(plan: Plan) -> dict[str, str]:  # noqa: ARG001
    """Return none: the local cloud is free."""
    return {}
