"""Parts of a cloud account that exist already, and belong to its owners: a cluster uses them and changes none."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, REFUSE, FromList, Section
from stampworks.declaration.ranges import Cidr
from stampworks.declaration.values import PartId, RolePath, Zone

Purpose = Literal["nodes", "storage", "database"]


class ExistingSubnet(Section):
    """A subnet of the existing network, for a purpose in a zone."""

    purpose: Purpose = Field(
        description="Purpose: nodes, storage (file systems), or a managed database.",
        json_schema_extra=REFUSE,
    )
    zone: Zone = Field(description="The zone that it is in.", json_schema_extra=REFUSE)
    id: PartId = Field(
        description="The cloud's id of the subnet, as subnet-0123456789abcdef0.", json_schema_extra=REFUSE
    )
    cidr: Cidr = Field(description="Its range, a part of network.cidr.", json_schema_extra=REFUSE)


class SecurityGroups(Section):
    """Existing security groups."""

    nodes: PartId = Field(
        default="",
        description="The group of all nodes; it allows everything from and to itself.",
        json_schema_extra=REFUSE,
    )
    storage: PartId = Field(
        default="",
        description="The group of file systems; it and that of nodes allow everything between each other.",
        json_schema_extra=REFUSE,
    )


class ExistingNetwork(Section):
    """An existing network: nodes and file systems are put into it, and nothing of it is changed or deleted."""

    vpc: PartId = Field(
        default="",
        description="The cloud's id of an existing network, as vpc-0123456789abcdef0; by default the cluster "
        "creates one. network.cidr is then its range.",
        json_schema_extra=REFUSE,
    )
    subnets: Annotated[tuple[ExistingSubnet, ...], FromList] = Field(
        default=(),
        description="Its subnets by purpose and zone; a cluster takes those of its zone.",
        json_schema_extra=REFUSE,
    )
    security_groups: SecurityGroups = Field(
        default=SecurityGroups(),
        description="Existing groups of rules; without them, the cluster makes its own in the network.",
        json_schema_extra=REFUSE,
    )


class InstanceProfiles(Section):
    """Rights of machines that the account's owners give."""

    head: PartId = Field(
        default="",
        description="The profile of head and login nodes; without it, the cluster makes one for each.",
        json_schema_extra=REFUSE,
    )
    nodes: PartId = Field(
        default="",
        description="The profile of the nodes of all pools.",
        json_schema_extra=REFUSE,
    )


class AccountTerms(Section):
    """Requirements of the account's owners for all resources of a cluster."""

    key: PartId = Field(
        default="",
        description="The key that encrypts every disk, file system, bucket and database; without it, the cloud's own.",
        json_schema_extra=REFUSE,
    )
    permissions_boundary: PartId = Field(
        default="",
        description="The policy that limits every role that the cluster makes.",
        json_schema_extra=IN_PLACE,
    )
    role_path: RolePath = Field(
        default="",
        description="The path of every role that the cluster makes, as /teams/training/.",
        json_schema_extra=REFUSE,
    )
    instance_profiles: InstanceProfiles = Field(
        default=InstanceProfiles(),
        description="Existing rights of machines, in the place of roles that the cluster makes.",
        json_schema_extra=REFUSE,
    )
