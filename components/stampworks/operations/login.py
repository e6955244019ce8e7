"""A connection: the data with which a user uses a cluster by a key of her own, without an administrator's rights."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from stampworks.clouds.registry import CLOUDS
from stampworks.operations import runs
from stampworks.operations.errors import InputError
from stampworks.operations.schedulers import port_of
from stampworks.operations.users import expect_user
from stampworks.plan import Plan, Roster


@dataclass(frozen=True)
class Connection:
    """Content of a user's connection file. Only a kubeconfig in it is secret."""

    user: str
    plan: Plan
    """Plan that was stamped when the connection was written, without reasons."""
    roster: Roster
    """Members of the cluster when it was written, with their host keys. ssh logs in as the user, with her own key."""
    kubeconfig: str = ""
    """Her access to the server of a Kubernetes cluster, with the rights of her teams; empty on Slurm."""


def connect(plan: Plan, roster: Roster, user: str) -> Connection:
    """Open ports to the head and login nodes from outside of their network, and return the connection."""
    expect_user(plan, user, besides=())
    port, own = port_of(plan.scheduler.kind), replace(plan, reasons=())
    if roster.members:
        with contextlib.suppress(
            InputError
        ):  # the first storage may be unusable for runs, and everything else still works
            runs.make(plan, roster)
    if port.asks_members:
        return Connection(user, own, _as_user(plan, roster, user))
    known = replace(roster, reach=(), user=user, identity_file="", proxy=())
    return Connection(user, own, known, port.user_config(plan, user))


def _as_user(plan: Plan, roster: Roster, user: str) -> Roster:
    doors = CLOUDS[plan.cloud].doors
    entries = {group.name for group in (plan.controller, *plan.login)}
    members = tuple(
        replace(each, target=doors().target(plan.name, each)) if doors and each.group in entries else each
        for each in roster.members
    )
    return replace(roster, reach=(), user=user, identity_file="", members=members)
