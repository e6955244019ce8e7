"""Nodes, and how they are bought."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, REPLACE, FromList, Section
from stampworks.declaration.values import MachineName, PoolName, Reservation, Zone


class Fallback(Section):
    """Another way to buy nodes, tried while there are none to be had as the pool says."""

    purchase: Literal["on-demand", "spot", "reserved", "block"] = Field(
        description="How they are paid for then.", json_schema_extra=IN_PLACE
    )
    reservation: Reservation = Field(
        default="",
        description="What the cloud calls the capacity that was bought before, for purchase: reserved or block.",
        json_schema_extra=IN_PLACE,
    )


class Pool(Section):
    """Nodes of one machine."""

    name: PoolName = Field(
        description="What the pool and its nodes (<pool>-001, ...) are called.", json_schema_extra=REPLACE
    )
    machine: MachineName = Field(description="The catalog's name of the machine.", json_schema_extra=REPLACE)
    count: int = Field(
        ge=1,
        le=4096,
        description="How many nodes the pool has at most; for none, take the pool out.",
        json_schema_extra=IN_PLACE,
    )
    count_min: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="How many of them always run; the others start and stop with the work. Without it, all do.",
        json_schema_extra=IN_PLACE,
    )
    purchase: Literal["", "owned", "on-demand", "spot", "reserved", "block"] = Field(
        default="",
        description="How its machines are paid for; without it, as the cloud sells them to everybody.",
        json_schema_extra=REPLACE,
    )
    zone: Zone = Field(
        default="",
        description="The cloud's zone that its nodes are in; without it, the cloud chooses.",
        json_schema_extra=REPLACE,
    )
    reservation: Reservation = Field(
        default="",
        description="What the cloud calls the capacity that was bought before, for purchase: reserved or block.",
        json_schema_extra=REPLACE,
    )
    fallbacks: Annotated[tuple[Fallback, ...], FromList] = Field(
        default=(),
        description="How else nodes that start with the work are bought, in this order, "
        "while there are none to be had as the pool says.",
        json_schema_extra=IN_PLACE,
    )
    scheduling_only: bool = Field(
        default=False,
        description="Whether only the scheduler knows its nodes: `sbatch --test-only` places jobs on them, none runs.",
        json_schema_extra=REPLACE,
    )
