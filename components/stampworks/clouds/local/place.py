"""The place of a local cluster."""

from __future__ import annotations

import pulumi

from stampworks.plan import Plan
from stampworks.resources import LocalRoom


def create(name: str, *, plan: Plan, opts: pulumi.ResourceOptions) -> LocalRoom:
    """What everything else of the cluster is in, so that nothing outlives it."""
    return LocalRoom(name, cluster=plan.name, opts=opts)


def cost_tags(plan: Plan) -> dict[str, str]:  # noqa: ARG001
    """None: nobody sends a bill."""
    return {}
