"""AWS: a VPC, groups of instances, FSx and EBS. The plan has the decisions; this package turns them into resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampworks.clouds.contract import Cloud, Elastic, Kubernetes, ManagedPools

if TYPE_CHECKING:
    import pulumi
    from pulumi_aws import ebs, rds

    from stampworks.clouds.aws.network import Connections
    from stampworks.clouds.aws.nodes import NodeGroup
    from stampworks.clouds.aws.place import Place
    from stampworks.clouds.aws.scheduler import ControlPlane, NodePool
    from stampworks.clouds.aws.session import Api
    from stampworks.clouds.components import DatabaseMaker, Drivers, ElasticMaker, PoolMaker, Resources, ServerMaker
    from stampworks.clouds.contract import (
        Access,
        AccountReader,
        ElasticMembers,
        ImageBuilder,
        Lookups,
        Members,
        PoolMembers,
        Renewal,
    )


def _resources() -> Resources[Place, Connections, pulumi.Resource, ebs.Volume, NodeGroup]:
    from stampworks.clouds.aws import network, nodes, place, storage
    from stampworks.clouds.components import Resources

    return Resources(place, network, nodes, storage, storage)


def _members() -> Members:
    from stampworks.clouds.aws import members

    return members


def _renewal() -> Renewal:
    from stampworks.clouds.aws import renewal

    return renewal


def _server() -> ServerMaker[Connections, ControlPlane]:
    from stampworks.clouds.aws import scheduler

    return scheduler


def _pools() -> PoolMaker[ControlPlane, NodePool]:
    from stampworks.clouds.aws import scheduler

    return scheduler


def _pool_members() -> PoolMembers:
    from stampworks.clouds.aws import members

    return members


def _access() -> Access:
    from stampworks.clouds.aws import access

    return access


def _drivers() -> Drivers[pulumi.Resource]:
    from stampworks.clouds.aws import storage

    return storage


def _elastic() -> ElasticMaker[Place, NodeGroup]:
    from stampworks.clouds.aws import nodes

    return nodes


def _elastic_members() -> ElasticMembers:
    from stampworks.clouds.aws import members

    return members


def _database() -> DatabaseMaker[Place, rds.Instance]:
    from stampworks.clouds.aws import database

    return database


def _account() -> AccountReader:
    from stampworks.clouds.aws.facts import account

    return account


def _lookups() -> Lookups[Api]:
    from stampworks.clouds.aws import session
    from stampworks.clouds.aws.facts import images, parts
    from stampworks.clouds.contract import Lookups

    return Lookups(session, images, parts)


def _image_builder() -> ImageBuilder:
    from stampworks.clouds.aws import first_boot

    return first_boot


CLOUD = Cloud(
    resources=_resources,
    members=_members,
    renewal=_renewal,
    kubernetes=Kubernetes(
        server=_server, access=_access, managed=ManagedPools(_pools, _pool_members), drivers=_drivers
    ),
    elastic=Elastic(_elastic, _elastic_members),
    database=_database,
    account=_account,
    lookups=_lookups,
    image_builder=_image_builder,
)
