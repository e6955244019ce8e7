"""File systems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, REFUSE, ROLL, FromList, Section
from stampworks.declaration.values import BucketFolder, Mount, Name, PartId, Repository, StorageKind, StorageTier

Feature = Literal["backups", "compression", "root-squash", "data-repository", "hdd-read-cache"]


class Storage(Section):
    """A file system that every node mounts."""

    name: Name = Field(description="Name of the file system.", json_schema_extra=REFUSE)
    kind: StorageKind = Field(
        description="Kind of file system: a directory, or one of the catalog's.", json_schema_extra=REFUSE
    )
    tier: StorageTier = Field(
        default="",
        description="Its tier, as its vendor calls it; not needed where kind and throughput leave only one.",
        json_schema_extra=REFUSE,
    )
    capacity: int = Field(
        default=0,
        ge=0,
        le=2**40,
        description="Size in GiB, or in GB if its vendor sells GB; 0 if it grows automatically.",
        json_schema_extra=IN_PLACE,
    )
    mbps_per_tib: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Throughput of each TiB, in MB/s, where it is bought with the capacity.",
        json_schema_extra=IN_PLACE,
    )
    throughput_mbps: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Throughput of the whole, in MB/s, where it is bought by itself.",
        json_schema_extra=IN_PLACE,
    )
    read_cache_gib: int = Field(
        default=0,
        ge=0,
        le=2**40,
        description="Size of its read cache, where one is declared.",
        json_schema_extra=IN_PLACE,
    )
    metadata_iops: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Metadata operations a second, where they are bought; 0 for the number that comes with it.",
        json_schema_extra=IN_PLACE,
    )
    efa: bool = Field(default=False, description="Whether nodes reach it over EFA.", json_schema_extra=REFUSE)
    features: Annotated[tuple[Feature, ...], FromList] = Field(
        default=(),
        description="Its features: backups, compression, root-squash, data-repository, hdd-read-cache.",
        json_schema_extra=REFUSE,
    )
    repository: Repository = Field(
        default="",
        description="Source that its feature data-repository shows: the name of a storage here, or a place like "
        "s3://bucket/data.",
        json_schema_extra=IN_PLACE,
    )
    expire_days: int = Field(
        default=0,
        ge=0,
        le=36_500,
        description="For s3: days after its last write at which an object is deleted; 0: never.",
        json_schema_extra=IN_PLACE,
    )
    expire_folder: BucketFolder = Field(
        default="",
        description="For s3: the folder that expire_days is for, as checkpoints/; without it, the whole bucket.",
        json_schema_extra=IN_PLACE,
    )
    existing: PartId = Field(
        default="",
        description="The cloud's id of an existing one, as fs-0123456789abcdef0, or a bucket's name, or on hosts the "
        "path of a directory that they share; it is mounted, and never changed or deleted.",
        json_schema_extra=REFUSE,
    )
    mount: Mount = Field(description="Mount point on the nodes: an absolute path.", json_schema_extra=ROLL)
    homes: bool = Field(
        default=False,
        description="Whether it holds home directories and folders of groups, instead of the first file system; a "
        "change that would move them is refused.",
        json_schema_extra=IN_PLACE,
    )
    protect: bool = Field(
        default=True,
        description="Whether to refuse its removal until this is false.",
        json_schema_extra=IN_PLACE,
    )
