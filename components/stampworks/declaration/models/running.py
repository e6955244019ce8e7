"""Settings of a running cluster: tags, budget, logs, proof, rolls, and parts of the user's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, FromList, Section
from stampworks.declaration.values import Email, OwnCheck, OwnRole, PoolName, TagName, TagValue


class Tag(Section):
    """A tag that attributes costs in bills."""

    name: TagName = Field(description="Name of the tag.", json_schema_extra=IN_PLACE)
    value: TagValue = Field(description="Value of the tag.", json_schema_extra=IN_PLACE)


class Budget(Section):
    """Limit of a cluster's costs, and mail addresses to warn in time."""

    monthly_usd: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Limit of the costs of a month, in US dollars, by which a plan is judged; 0 for no limit.",
        json_schema_extra=IN_PLACE,
    )
    notify: Annotated[tuple[Email, ...], FromList] = Field(
        default=(),
        max_length=10,
        description="Mail addresses to notify when most of it is spent, and before a block of capacity ends.",
        json_schema_extra=IN_PLACE,
    )


class Logs(Section):
    """Logs of nodes, stored outside of the nodes."""

    days: int | None = Field(
        default=None,
        ge=0,
        le=3653,
        description="Days for which the cloud keeps logs of nodes; 0 for none, without it 30 where the cloud can.",
        json_schema_extra=IN_PLACE,
    )


class Role(Section):
    """An Ansible role of your own: a folder with tasks/main.yml. It runs before the nodes take jobs."""

    path: OwnRole = Field(
        description="Its folder, from the folder of this file; the folder's name is the role's name.",
        json_schema_extra=IN_PLACE,
    )
    groups: Annotated[tuple[str, ...], FromList] = Field(
        default=(),
        description="The pools, head or login, whose nodes get it; without any, all nodes.",
        json_schema_extra=IN_PLACE,
    )
    variables: dict[str, Any] = Field(
        default={},
        description="Variables of the role: data of any shape, never a template. Each name begins with the role's.",
        json_schema_extra=IN_PLACE,
    )


class Check(Section):
    """Your own check of a node's health: a script that prints a line and exits 0 (healthy) or 1 (unhealthy)."""

    path: OwnCheck = Field(
        description="Its file, from the folder of this file; its name without an ending is the check's name.",
        json_schema_extra=IN_PLACE,
    )
    pools: Annotated[tuple[PoolName, ...], FromList] = Field(
        default=(), description="The pools whose nodes it checks; without any, all pools.", json_schema_extra=IN_PLACE
    )
    timeout_seconds: int = Field(
        default=10,
        ge=1,
        le=30,
        description="Seconds after which a check without an answer is unknown, which does not count as healthy.",
        json_schema_extra=IN_PLACE,
    )


class Extras(Section):
    """Roles and checks of the user's own."""

    roles: Annotated[tuple[Role, ...], FromList] = Field(
        default=(),
        description="Ansible roles of your own, in their order; removing one does not undo its changes on nodes.",
        json_schema_extra=IN_PLACE,
    )
    checks: Annotated[tuple[Check, ...], FromList] = Field(
        default=(),
        description="Checks of your own; a node that fails one takes no jobs.",
        json_schema_extra=IN_PLACE,
    )


class Proof(Section):
    """Measurement of the finished cluster against its plan; `up` finishes when it has passed."""

    level: Literal["none", "quick", "standard", "burn-in"] = Field(
        default="standard",
        description="Extent of the proof: nothing, each node alone, nodes and fabric together, all of it longer.",
        json_schema_extra=IN_PLACE,
    )
    budget_minutes: int = Field(
        default=0,
        ge=0,
        le=10_080,
        description="Time limit in minutes; checks without a result by then are unknown, which is not a pass. A "
        "burn-in uses all of it. 0 means 10, and 240 for a burn-in.",
        json_schema_extra=IN_PLACE,
    )
    failed_nodes_max: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Number of nodes that may fail and be held while `up` still passes.",
        json_schema_extra=IN_PLACE,
    )


class Roll(Section):
    """Renewal of running nodes for settings that only apply at boot, such as a new release: in waves, each within a
    leaf."""

    max_unavailable_percent: int = Field(
        default=25,
        ge=1,
        le=100,
        description="Largest part of a pool's nodes out of service at once, in percent; one node is always allowed.",
        json_schema_extra=IN_PLACE,
    )
    jobs: Literal["wait", "requeue"] = Field(
        default="wait",
        description="Treatment of jobs on a node that is next: wait until they end, or requeue them on other nodes.",
        json_schema_extra=IN_PLACE,
    )
