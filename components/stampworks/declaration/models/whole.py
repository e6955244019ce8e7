"""The declaration as a whole."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from stampworks.catalog import Cloud
from stampworks.declaration.models.directory import Directory
from stampworks.declaration.models.existing import AccountTerms
from stampworks.declaration.models.hosts import Hosts
from stampworks.declaration.models.network import Fabric, Network
from stampworks.declaration.models.pools import Pool
from stampworks.declaration.models.running import Budget, Extras, Logs, Proof, Roll, Tag
from stampworks.declaration.models.scheduler import Scheduler, User, UserGroup
from stampworks.declaration.models.section import IN_PLACE, REFUSE, REPLACE, ROLL, FromList, Section
from stampworks.declaration.models.storage import Storage
from stampworks.declaration.models.training import Training
from stampworks.declaration.values import Name, Region, ReleaseName, Whole

VERSION: Final = 1


class Declaration(Section):
    """A training cluster, as a person declares it."""

    extends: str = Field(
        default="",
        description="A base file, relative to this one: mappings are merged with it, everything else replaces it.",
        json_schema_extra=IN_PLACE,
    )
    version: Annotated[Literal[1], Whole] = Field(
        description="The version of this format: 1.", json_schema_extra=IN_PLACE
    )
    name: Name = Field(description="Name of the cluster; another name is another cluster.", json_schema_extra=REFUSE)
    cloud: Cloud = Field(description="Cloud on which the cluster is stamped.", json_schema_extra=REFUSE)
    region: Region = Field(
        default="",
        description="The cloud's region; a cloud that has regions needs one.",
        json_schema_extra=REFUSE,
    )
    release: ReleaseName = Field(
        default="",
        description='The catalog\'s name of the software release, in quotes ("2026.12"); without it, the newest.',
        json_schema_extra=ROLL,
    )
    tags: Annotated[tuple[Tag, ...], FromList] = Field(
        default=(),
        description="Tags on all resources of the cluster, as owner or cost-centre, by which bills are sorted.",
        json_schema_extra=IN_PLACE,
    )
    budget: Budget = Field(
        default=Budget(),
        description="Limit of its costs, and mail addresses to warn in time.",
        json_schema_extra=IN_PLACE,
    )
    logs: Logs = Field(default=Logs(), description="Logs of nodes, kept outside of them.", json_schema_extra=IN_PLACE)
    network: Network = Field(default=Network(), description="Addresses of the cluster.", json_schema_extra=REFUSE)
    account: AccountTerms = Field(
        default=AccountTerms(),
        description="Requirements of the cloud account for everything that the cluster creates.",
        json_schema_extra=REFUSE,
    )
    hosts: Hosts = Field(
        default=Hosts(),
        description="On hosts: the machines that become the cluster, and the way to them.",
        json_schema_extra=REFUSE,
    )
    pools: Annotated[tuple[Pool, ...], FromList] = Field(
        min_length=1,
        description="The nodes, by machine and use; a new pool goes behind the others, for addresses follow the order.",
        json_schema_extra=IN_PLACE,
    )
    fabric: Fabric = Field(default=Fabric(), description="The network between the GPUs.", json_schema_extra=REPLACE)
    storage: Annotated[tuple[Storage, ...], FromList] = Field(
        default=(),
        description="File systems that every node mounts; a protected one cannot be taken out.",
        json_schema_extra=IN_PLACE,
    )
    users: Annotated[tuple[User, ...], FromList] = Field(
        default=(), description="People who may log in and submit jobs.", json_schema_extra=IN_PLACE
    )
    groups: Annotated[tuple[UserGroup, ...], FromList] = Field(
        default=(),
        description="Teams whose users share files, each with a folder on shared storage.",
        json_schema_extra=IN_PLACE,
    )
    directory: Directory = Field(
        default=Directory(),
        description="A directory with people and groups, such as LDAP.",
        json_schema_extra=REFUSE,
    )
    scheduler: Scheduler = Field(
        default=Scheduler(), description="Scheduler of jobs, and its rules.", json_schema_extra=REFUSE
    )
    proof: Proof = Field(
        default=Proof(),
        description="Proof that the cluster passes before anything may rely on it.",
        json_schema_extra=IN_PLACE,
    )
    roll: Roll = Field(default=Roll(), description="Replacement of running nodes.", json_schema_extra=IN_PLACE)
    training: Training = Field(
        default=Training(),
        description="Defaults of training runs.",
        json_schema_extra=IN_PLACE,
    )
    extras: Extras = Field(default=Extras(), description="Roles and checks of your own.", json_schema_extra=IN_PLACE)
