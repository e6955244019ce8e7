"""Machines that exist and answer ssh, as a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampworks.clouds.contract import Cloud

if TYPE_CHECKING:
    from pulumi import Resource

    from stampworks.clouds.components import Resources
    from stampworks.clouds.contract import Members, Renewal
    from stampworks.resources import HostDirectory, HostGroup, HostNetwork, HostPlace


def _resources() -> Resources[HostPlace, HostNetwork, HostDirectory, Resource, HostGroup]:
    from stampworks.clouds.components import Resources
    from stampworks.clouds.hosts import network, nodes, place, storage

    return Resources(place, network, nodes, storage, None)


def _members() -> Members:
    from stampworks.clouds.hosts import members

    return members


def _renewal() -> Renewal:
    from stampworks.clouds.hosts import renewal

    return renewal


CLOUD = Cloud(resources=_resources, members=_members, renewal=_renewal)
