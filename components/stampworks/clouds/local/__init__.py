"""The local cloud: real nodes made of namespaces on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampworks.clouds.contract import Cloud, JoinedPools, Kubernetes

if TYPE_CHECKING:
    from stampworks.clouds.components import JoinedMaker, Resources, ServerMaker
    from stampworks.clouds.contract import Access, Doors, Faults, JoinedRenewal, Members, Renewal
    from stampworks.resources import (
        LocalControlPlane,
        LocalGroup,
        LocalNetwork,
        LocalRoom,
        LocalVolume,
        SharedDirectory,
    )


def _resources() -> Resources[LocalRoom, LocalNetwork, SharedDirectory, LocalVolume, LocalGroup]:
    from stampworks.clouds.components import Resources
    from stampworks.clouds.local import network, nodes, place, storage

    return Resources(place, network, nodes, storage, storage)


def _members() -> Members:
    from stampworks.clouds.local import members

    return members


def _renewal() -> Renewal:
    from stampworks.clouds.local import renewal

    return renewal


def _server() -> ServerMaker[LocalNetwork, LocalControlPlane]:
    from stampworks.clouds.local import scheduler

    return scheduler


def _joined() -> JoinedMaker[LocalControlPlane]:
    from stampworks.clouds.local import scheduler

    return scheduler


def _joined_renewal() -> JoinedRenewal:
    from stampworks.clouds.local import renewal

    return renewal


def _access() -> Access:
    from stampworks.clouds.local import access

    return access


def _faults() -> Faults:
    from stampworks.clouds.local import faults

    return faults


def _doors() -> Doors:
    from stampworks.clouds.local import door

    return door


CLOUD = Cloud(
    resources=_resources,
    members=_members,
    renewal=_renewal,
    kubernetes=Kubernetes(server=_server, access=_access, joined=JoinedPools(_joined, _joined_renewal)),
    faults=_faults,
    doors=_doors,
)
