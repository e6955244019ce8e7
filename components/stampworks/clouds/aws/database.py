"""Database of the accounting, run by AWS in the cluster's zone. Only the head reaches it."""

from __future__ import annotations

import re

import pulumi
from pulumi import ResourceOptions
from pulumi_aws import ec2, rds, vpc

from stampworks.clouds.aws.place import Place
from stampworks.plan import ACCOUNTING_DATABASE, Network, Scheduler

_BACKUP_DAYS = 7
_PORT = 3306
_USER = "slurm"
_VERSION = "11.4"
"""Version of MariaDB; AWS chooses the newest minor version.

From 11.6 on, a transaction that meets another transaction's change fails unless innodb_snapshot_isolation is off, and
slurmdbd loses the write (SchedMD/slurm d81a4e919f, 2026-07). No public source says whether RDS offers that parameter
for later versions.
"""
_MACHINE, _DISK_GIB, _DISK_GIB_MAX = "db.m7g.large", 20, 1000
# Slurm, "Accounting and Resource Limits": purging old records holds locks for long. MariaDB requires TLS by default
# only from 11.8 on (Amazon RDS User Guide, "Requiring SSL/TLS for all connections to a MariaDB DB instance"; both read
# 2026-11-23).
_SETTINGS = {"innodb_lock_wait_timeout": "900", "require_secure_transport": "1"}


def create(
    name: str,
    *,
    cluster: str,
    place: Place,
    network: Network,
    scheduler: Scheduler,
    password: pulumi.Input[str],
    opts: ResourceOptions,
) -> rds.Instance:
    """Create the database. Deleting it takes an explicit confirmation, and it stays when the stack forgets it.

    The password is the one that a database on the head has. RDS changes a managed password every seven days (Amazon RDS
    User Guide, "Password management with Amazon RDS and AWS Secrets Manager", read 2026-11-23). slurmdbd reads its
    password only when it starts.
    """
    within, tags = place.within(opts), place.tags("accounting")
    # RDS requires a subnet in another zone (Amazon RDS User Guide, "Working with a DB instance in a VPC", read
    # 2026-11-23).
    prefix = re.sub("-+", "-", f"{cluster}-")  # RDS refuses two hyphens in a row, and a name may have them
    subnets = rds.SubnetGroup(
        name,
        name_prefix=prefix,
        subnet_ids=[place.subnets["storage"].id, place.elsewhere(name, "database", network, within).id],
        tags=tags,
        # RDS changes no subnet of a group that a database uses (SubnetAlreadyInUse in botocore 1.44.5)
        opts=ResourceOptions.merge(within, ResourceOptions(replace_on_changes=["subnetIds"])),
    )
    settings = rds.ParameterGroup(
        name,
        name_prefix=prefix,
        family=f"mariadb{_VERSION}",
        parameters=[{"name": key, "value": value} for key, value in _SETTINGS.items()],
        tags=tags,
        opts=within,
    )
    guard = ResourceOptions(
        protect=scheduler.protect, retain_on_delete=scheduler.protect, replace_on_changes=["dbSubnetGroupName"]
    )
    return rds.Instance(
        name,
        identifier_prefix=prefix,
        engine="mariadb",
        engine_version=_VERSION,
        instance_class=_MACHINE,
        storage_type="gp3",
        allocated_storage=_DISK_GIB,
        max_allocated_storage=_DISK_GIB_MAX,
        storage_encrypted=True,
        kms_key_id=place.key,
        availability_zone=place.subnets["storage"].availability_zone,
        db_subnet_group_name=subnets.name,
        vpc_security_group_ids=[_for_head(name, place, within).id],
        parameter_group_name=settings.name,
        port=_PORT,
        # slurmdbd creates its database, too, but only after a first connection fails, which MariaDB's client library
        # 3.4.10 does not recover from (playbooks/roles/database)
        db_name=ACCOUNTING_DATABASE,
        username=_USER,
        password=password,
        publicly_accessible=False,
        backup_retention_period=_BACKUP_DAYS,
        copy_tags_to_snapshot=True,
        deletion_protection=scheduler.protect,
        # Backups outlive the database by as many days. A database that may go needs nothing else.
        delete_automated_backups=False,
        skip_final_snapshot=True,
        tags=tags,
        opts=ResourceOptions.merge(within, guard),
    )


def authorities(region: str) -> str:
    """Return the URL of the authorities that sign the database's certificate. No distribution has them (Amazon RDS User
    Guide, "Using SSL/TLS to encrypt a connection to a DB instance or cluster", read 2026-11-27)."""
    world = "us-gov-west-1." if region.startswith("us-gov-") else ""
    return f"https://truststore.pki.{world}rds.amazonaws.com/{region}/{region}-bundle.pem"


def _for_head(name: str, place: Place, opts: ResourceOptions) -> ec2.SecurityGroup:
    """Create the security group of the database, which only the head reaches."""
    tags = place.tags("accounting")
    group = ec2.SecurityGroup(
        name, vpc_id=place.vpc_id, description=f"database of {place.cluster}", tags=tags, opts=opts
    )
    (head,) = place.of_head
    for rule, own, other in (
        (vpc.SecurityGroupIngressRule, group, head),
        (vpc.SecurityGroupEgressRule, head, group),
    ):
        rule(
            name,
            security_group_id=own.id,
            referenced_security_group_id=other.id,
            ip_protocol="tcp",
            from_port=_PORT,
            to_port=_PORT,
            tags=tags,
            opts=opts,
        )
    return group
