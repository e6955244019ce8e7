"""Addresses, and the fabric between the GPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.models.existing import ExistingNetwork
from stampworks.declaration.models.section import IN_PLACE, REFUSE, REPLACE, ROLL, Section
from stampworks.declaration.ranges import Cidr
from stampworks.declaration.values import Whole


class Network(Section):
    """Addresses."""

    cidr: Cidr = Field(
        default="10.77.0.0/16",
        description="The private IPv4 range that all addresses of the cluster come from.",
        json_schema_extra=REPLACE,
    )
    egress: Literal["", "nat", "none"] = Field(
        default="",
        description="Way of a cloud's nodes to the internet: nat, or none but the services of the cloud; "
        "without it, nat where nodes have private addresses.",
        json_schema_extra=IN_PLACE,
    )
    card_addresses: bool = Field(
        default=False,
        description="On aws: whether each network card of the fabric has an address, as IP over all of them and images "
        "without EFA-only interfaces need; else a node has one.",
        json_schema_extra=ROLL,
    )
    existing: ExistingNetwork = Field(
        default=ExistingNetwork(),
        description="A network that exists already, which the cluster uses and never changes.",
        json_schema_extra=REFUSE,
    )
    pods_cidr: Cidr = Field(
        default="10.240.0.0/12",
        description="On Kubernetes: the private IPv4 range of pods, apart from the others; "
        "on aws they have addresses of the subnet of nodes instead.",
        json_schema_extra=REFUSE,
    )
    services_cidr: Cidr = Field(
        default="172.20.0.0/16",
        description="On Kubernetes: the private IPv4 range of its services, apart from the others.",
        json_schema_extra=REFUSE,
    )


class Fabric(Section):
    """The switches and links between the GPUs."""

    kind: Literal["", "simulated", "infiniband", "roce", "efa", "tcp"] = Field(
        default="",
        description="Protocol of the fabric; without it, the one of the machines' NICs.",
        json_schema_extra=REPLACE,
    )
    rail_rate_mbps: int = Field(
        default=0,
        ge=0,
        le=1_600_000,
        description="Rate of one rail of one simulated node, in Mb/s (megabits a second); 0 is 200.",
        json_schema_extra=IN_PLACE,
    )
    leaf_nodes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Number of nodes of a pool per leaf switch; 0 means 2 on simulated machines, and as many as the "
        "switches of the machines' NICs join on real ones. A cloud's fabric is its own.",
        json_schema_extra=ROLL,
    )
    spine_leaves: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Number of leaves of a simulated pool per spine; cores join the spines. 0 means one spine for "
        "all. Real machines have the spines that their switches need.",
        json_schema_extra=IN_PLACE,
    )
    oversubscription: Annotated[Literal[1, 2, 4], Whole] = Field(
        default=1,
        description="Ratio of the rails of a full leaf to its trunk; 1 for no oversubscription.",
        json_schema_extra=IN_PLACE,
    )
