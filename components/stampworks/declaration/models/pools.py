"""Nodes, and how they are bought."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, REPLACE, FromList, Section
from stampworks.declaration.values import MachineName, PoolName, Reservation, Zone


class Fallback(Section):
    """Another way to buy nodes, tried when the pool's own way finds no capacity."""

    purchase: Literal["on-demand", "spot", "reserved", "block"] = Field(
        description="Purchase of these nodes.", json_schema_extra=IN_PLACE
    )
    reservation: Reservation = Field(
        default="",
        description="The cloud's name of the reservation or block, for purchase: reserved or block.",
        json_schema_extra=IN_PLACE,
    )


class Pool(Section):
    """Nodes of the same machine."""

    name: PoolName = Field(
        description="Name of the pool, and first part of the names of its nodes (<pool>-001, ...).",
        json_schema_extra=REPLACE,
    )
    machine: MachineName = Field(description="The catalog's name of the machine.", json_schema_extra=REPLACE)
    count: int = Field(
        ge=1,
        le=4096,
        description="Largest number of nodes; for none, take the pool out.",
        json_schema_extra=IN_PLACE,
    )
    count_min: int | None = Field(
        default=None,
        ge=0,
        le=4096,
        description="Number of nodes that always run; the others start when jobs need them, and stop afterwards. "
        "By default all always run.",
        json_schema_extra=IN_PLACE,
    )
    purchase: Literal["", "owned", "on-demand", "spot", "reserved", "block"] = Field(
        default="",
        description="Purchase of its machines; by default on the cloud's usual terms.",
        json_schema_extra=REPLACE,
    )
    zone: Zone = Field(
        default="",
        description="The cloud's zone that its nodes are in; without it, the cloud chooses.",
        json_schema_extra=REPLACE,
    )
    reservation: Reservation = Field(
        default="",
        description="The cloud's name of the reservation or block, for purchase: reserved or block.",
        json_schema_extra=REPLACE,
    )
    fallbacks: Annotated[tuple[Fallback, ...], FromList] = Field(
        default=(),
        description="Other ways to buy nodes that do not always run, tried in this order "
        "when the pool's own way finds no capacity.",
        json_schema_extra=IN_PLACE,
    )
    scheduling_only: bool = Field(
        default=False,
        description="Whether its nodes exist only in the scheduler: `sbatch --test-only` places jobs on them, and "
        "no job runs.",
        json_schema_extra=REPLACE,
    )
