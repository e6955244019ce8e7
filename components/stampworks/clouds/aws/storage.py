"""The storage of an AWS cluster: file systems that every node mounts, and disks that outlive their nodes."""

from __future__ import annotations

from typing import Any, cast

import pulumi
from pulumi import ResourceOptions
from pulumi_aws import ebs, efs, fsx

from stampworks.clouds.aws import bucket, existing
from stampworks.clouds.aws.place import Place
from stampworks.plan import Driven, Group, Mount, Storage, Volume

_BACKUP_DAYS = 7
_LUSTRE = "2.15"
"""The newest version of Lustre that FSx offers, and the only one that clients of all releases can mount."""


def create(
    name: str,
    *,
    cluster: str,  # noqa: ARG001
    place: Place,
    storage: Storage,
    repository: pulumi.Resource | None,
    opts: ResourceOptions,
) -> pulumi.Resource:
    """Create a file system, and return it or its mount target.

    Deleting the data takes an explicit confirmation. The data stays when the stack forgets the file system.
    """
    if storage.existing:
        found = existing.Existing(name, place, storage, place.within(opts))
        if storage.kind == "s3":
            place.buckets.append(found)
        return found
    guard = ResourceOptions(protect=storage.protect, retain_on_delete=storage.protect, depends_on=[*place.rules])
    made = _KINDS[storage.kind](name, place, storage, ResourceOptions.merge(place.within(opts), guard))
    if storage.repository:
        _show(name, place, storage, made, repository)
    return made


def _show(name: str, place: Place, storage: Storage, made: Any, bucket: Any) -> None:
    """Show a whole bucket as the root of the file system.

    An object deleted in the bucket is deleted in the file system. A file deleted in the file system stays in the
    bucket: cleaning a file system must not delete the source.
    """
    fsx.DataRepositoryAssociation(
        name,
        file_system_id=made.id,
        file_system_path="/",
        data_repository_path=bucket.id.apply("s3://{}".format) if bucket else storage.repository,
        batch_import_meta_data_on_create=True,
        s3={
            "auto_import_policy": {"events": ["NEW", "CHANGED", "DELETED"]},
            "auto_export_policy": {"events": ["NEW", "CHANGED"]},
        },
        tags=place.tags(f"{storage.name}-repository"),
        opts=place.within(ResourceOptions(parent=made)),
    )


def _lustre(name: str, place: Place, storage: Storage, opts: ResourceOptions) -> fsx.LustreFileSystem:
    deployment, _, media = storage.tier.partition(" ")
    tiered, backups = media == "INTELLIGENT_TIERING", "backups" in storage.features
    # Scratch file systems have no backups. No source says whether tiered ones have them.
    may_be_saved = backups or (deployment.startswith("PERSISTENT") and not tiered)
    cached = "hdd-read-cache" in storage.features
    return fsx.LustreFileSystem(
        name,
        subnet_ids=place.subnets["storage"].id,
        security_group_ids=[place.storage.id],
        file_system_type_version=_LUSTRE,
        deployment_type=deployment,
        storage_type=media or "SSD",
        storage_capacity=storage.capacity or None,
        per_unit_storage_throughput=storage.mbps_per_tib or None,
        throughput_capacity=storage.throughput_mbps or None,
        data_read_cache_configuration=_read_cache(storage.read_cache_gib) if tiered else None,
        drive_cache_type=("READ" if cached else "NONE") if media == "HDD" else None,
        metadata_configuration=_metadata(storage),
        efa_enabled=storage.efa or None,
        data_compression_type="LZ4" if "compression" in storage.features else "NONE",
        root_squash_configuration=_ROOT_SQUASH if "root-squash" in storage.features else None,
        automatic_backup_retention_days=(_BACKUP_DAYS if backups else 0) if may_be_saved else None,
        # not for a file system with a data repository (CreateFileSystemLustreConfiguration in botocore 1.44.5)
        copy_tags_to_backups=(may_be_saved and not storage.repository) or None,
        kms_key_id=place.key,
        tags=place.tags(storage.name),
        # FSx fixes this value at creation, with or without backups. Another value would replace the file system by an
        # empty one.
        opts=ResourceOptions.merge(opts, ResourceOptions(ignore_changes=["copyTagsToBackups"])),
    )


def _read_cache(gib: int) -> fsx.LustreFileSystemDataReadCacheConfigurationArgs:
    if gib:
        return fsx.LustreFileSystemDataReadCacheConfigurationArgs(sizing_mode="USER_PROVISIONED", size=gib)
    return fsx.LustreFileSystemDataReadCacheConfigurationArgs(sizing_mode="PROPORTIONAL_TO_THROUGHPUT_CAPACITY")


def _metadata(storage: Storage) -> fsx.LustreFileSystemMetadataConfigurationArgs | None:
    if storage.metadata_iops:
        return fsx.LustreFileSystemMetadataConfigurationArgs(mode="USER_PROVISIONED", iops=storage.metadata_iops)
    return fsx.LustreFileSystemMetadataConfigurationArgs(mode="AUTOMATIC") if storage.efa else None


_ROOT_SQUASH = fsx.LustreFileSystemRootSquashConfigurationArgs(root_squash="65534:65534")


def _nfs(name: str, place: Place, storage: Storage, opts: ResourceOptions) -> efs.MountTarget:
    """Create the file system and return its mount target.

    The mount target takes longer than the file system. Both have the same DNS name, which does not resolve before the
    mount target exists.
    """
    one_zone = storage.tier == "one zone"
    made = efs.FileSystem(
        name,
        encrypted=True,
        kms_key_id=place.key,
        availability_zone_name=place.subnets["storage"].availability_zone if one_zone else None,
        throughput_mode="elastic",
        tags=place.tags(storage.name),
        opts=opts,
    )
    way = efs.MountTarget(
        name,
        file_system_id=made.id,
        subnet_id=place.subnets["storage"].id,
        security_groups=[place.storage.id],
        # a file system has mount targets in one VPC only (CreateMountTarget in botocore 1.44.5, read 2026-11-28)
        opts=place.within(ResourceOptions(parent=made, delete_before_replace=True)),
    )
    # Declare backups in both cases. By default AWS backs up only one-zone file systems, daily, and keeps the backups
    # for 35 days (Amazon EFS User Guide, "Backing up EFS file systems", read 2026-11-22). The provider switches backups
    # off when it deletes this resource. Keep it for a file system that stays.
    efs.BackupPolicy(
        name,
        file_system_id=made.id,
        backup_policy={"status": "ENABLED" if "backups" in storage.features else "DISABLED"},
        opts=place.within(ResourceOptions(parent=made, retain_on_delete=storage.protect)),
    )
    return way


def _zfs(name: str, place: Place, storage: Storage, opts: ResourceOptions) -> fsx.OpenZfsFileSystem:
    squash = "root_squash" if "root-squash" in storage.features else "no_root_squash"
    return fsx.OpenZfsFileSystem(
        name,
        subnet_ids=place.subnets["storage"].id,
        security_group_ids=[place.storage.id],
        deployment_type=storage.tier,
        storage_type="SSD",
        storage_capacity=storage.capacity,
        throughput_capacity=storage.throughput_mbps,
        root_volume_configuration={
            "data_compression_type": "LZ4" if "compression" in storage.features else "NONE",
            # The security group decides which hosts reach the file system.
            "nfs_exports": {"client_configurations": [{"clients": "*", "options": ["rw", "crossmnt", squash]}]},
        },
        automatic_backup_retention_days=_BACKUP_DAYS if "backups" in storage.features else 0,
        copy_tags_to_backups=True if "backups" in storage.features else None,
        kms_key_id=place.key,
        skip_final_backup=not storage.protect,  # such a backup has no use, and would be billed
        tags=place.tags(storage.name),
        opts=opts,
    )


def _bucket(name: str, place: Place, storage: Storage, opts: ResourceOptions) -> pulumi.Resource:
    # AWS deletes no bucket that holds objects. An unprotected bucket is deleted with its contents, like a file system
    goes = None if storage.protect else True
    made = bucket.private(name, place, storage.name, opts, expiry=_expiry(storage), force_destroy=goes)
    place.buckets.append(made)
    return cast(pulumi.Resource, made)


def _expiry(storage: Storage) -> list[dict[str, Any]]:
    """Return the lifecycle rule for expiry.

    An expired object remains as an old version, and can be restored until that version expires, too.
    """
    if not storage.expire_days:
        return []
    of = {"id": "expire", "status": "Enabled", "filter": {"prefix": storage.expire_folder}}
    return [{**of, "expiration": {"days": storage.expire_days}}]


_KINDS = {"fsx-lustre": _lustre, "fsx-openzfs": _zfs, "efs": _nfs, "s3": _bucket}


# Sources: Amazon FSx for Lustre User Guide, "Mounting your Amazon FSx file system automatically"; Amazon EFS User
# Guide, "Recommended NFS mount settings"; read 2026-11-22. OpenZFS nodes mount the root volume, which is called /fsx
# (API reference, OpenZFSVolumeConfiguration, VolumePath, read 2026-11-24). They mount it from privileged ports: its
# exports are `secure`, the default of exports(5).
_LUSTRE_OPTIONS = "relatime,flock,_netdev"
_NFS = "rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2"
_EFS_OPTIONS, _ZFS_OPTIONS = f"nfsvers=4.1,{_NFS},noresvport,_netdev", f"nfsvers=4.2,{_NFS},_netdev"
_BUCKET_OPTIONS = "allow-other,nosuid,nodev,_netdev"


def mount(storage: Storage, made: Any) -> pulumi.Output[Mount]:
    """Return source and options of the mount. AWS assigns the name of the file system."""
    source: pulumi.Output[str]
    if storage.kind == "efs":
        source, kind, options = pulumi.Output.concat(made.dns_name, ":/"), "nfs4", _EFS_OPTIONS
    elif storage.kind == "fsx-openzfs":
        source, kind, options = pulumi.Output.concat(made.dns_name, ":/fsx"), "nfs4", _ZFS_OPTIONS
    elif storage.kind == "s3":
        source, kind, options = pulumi.Output.concat("s3://", made.bucket), "mount-s3", _BUCKET_OPTIONS
    else:
        source = pulumi.Output.concat(made.dns_name, "@tcp:/", made.mount_name)
        kind, options = "lustre", _LUSTRE_OPTIONS
    return source.apply(lambda at: Mount(at, storage.mount, kind, options))


_OF_EVERYBODY = ("allow-other", "dir-mode 0777", "file-mode 0666")
"""Options that open the whole mount. Objects in a bucket have no owner, and pods run with any user id."""
_DRIVERS = {"fsx-lustre": "fsx.csi.aws.com", "efs": "efs.csi.aws.com", "s3": "s3.csi.aws.com"}


def driven(storage: Storage, made: Any, region: str) -> pulumi.Output[Driven]:
    """Return the volume as its CSI driver on EKS knows it.

    Sources: examples of static provisioning of aws-fsx-csi-driver 5b227125, aws-efs-csi-driver a4fc6760 and
    mountpoint-s3-csi-driver 57c6bedb, read 2026-11-24. The EFS driver adds its own mount options, and encrypts the
    traffic.
    """
    driver = _DRIVERS[storage.kind]
    known: pulumi.Output[Any]
    if storage.kind == "efs":
        known = made.file_system_id
        return known.apply(lambda handle: Driven(driver, handle))
    if storage.kind == "s3":
        known, options = made.bucket, (*_OF_EVERYBODY, f"region {region}")
        return known.apply(lambda name: Driven(driver, name, (("bucketName", name),), options, own_handles=True))
    known = pulumi.Output.all(made.id, made.dns_name, made.mount_name)
    return known.apply(
        lambda of: Driven(driver, of[0], (("dnsname", of[1]), ("mountname", of[2])), ("relatime", "flock"))
    )


def serial(volume: ebs.Volume) -> pulumi.Output[str]:
    """Return the serial number that the disk shows on its instance."""
    return volume.id


def create_volume(
    name: str,
    *,
    cluster: str,  # noqa: ARG001
    place: Place,
    group: Group,
    volume: Volume,
    protect: bool,
    opts: ResourceOptions,
) -> ebs.Volume:
    """Create a disk in the zone of the nodes. A disk cannot be attached in another zone."""
    return ebs.Volume(
        name,
        availability_zone=place.subnets["nodes"].availability_zone,
        size=volume.gib,
        type="gp3",
        encrypted=True,
        kms_key_id=place.key,
        tags=place.tags(f"{group.name}-{volume.name}"),
        opts=ResourceOptions.merge(place.within(opts), ResourceOptions(protect=protect, retain_on_delete=protect)),
    )
