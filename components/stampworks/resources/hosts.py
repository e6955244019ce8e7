"""Resources of clusters on machines that exist and answer ssh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Input, Output

from stampworks import properties
from stampworks.resources.base import Resource


class HostPlace(Resource):
    """The claim of a cluster on hosts. Deleting it leaves nothing of the cluster on those that answer."""

    table = properties.HOST_PLACE

    cluster: Output[str]
    hosts: Output[Any]
    claim: Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        hosts: Input[Mapping[str, Any]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class HostNetwork(Resource):
    """The list of hosts and the key of the cluster, kept where the toolkit runs. The network itself exists."""

    table = properties.HOST_NETWORK

    cluster: Output[str]
    claim: Output[str]
    hosts: Output[Any]
    ssh_public_key: Output[str]
    ssh_private_key: Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        hosts: Input[Mapping[str, Any]],
        ssh_public_key: Input[str],
        ssh_private_key: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class HostGroup(Resource):
    """Hosts that are the nodes of one pool."""

    table = properties.HOST_GROUP

    cluster: Output[str]
    claim: Output[str]
    hosts: Output[Any]
    ssh_public_key: Output[str]
    group: Output[Any]
    made_with: Output[str]
    drain_timeout_minutes: Output[int]
    generation: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        hosts: Input[Mapping[str, Any]],
        ssh_public_key: Input[str],
        group: Input[Mapping[str, Any]],
        made_with: Input[str],
        drain_timeout_minutes: Input[int],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class HostDirectory(Resource):
    """A directory that all hosts share. It exists, and stays as it is."""

    table = properties.HOST_DIRECTORY

    cluster: Output[str]
    claim: Output[str]
    hosts: Output[Any]
    path: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        hosts: Input[Mapping[str, Any]],
        path: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)
