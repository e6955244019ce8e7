"""Resources of the local cloud, which runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output

from stampworks import properties
from stampworks.resources.base import Resource


class LocalRoom(Resource):
    """The place of a cluster on this machine: the claim on everything in it. Deleting it leaves nothing of it."""

    table = properties.LOCAL_ROOM

    cluster: Output[str]
    claim: Output[str]

    def __init__(self, name: str, *, cluster: Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, locals(), opts)


class LocalNetwork(Resource):
    """The running machine room of one cluster with its networks. Deleting it ends everything that runs in it."""

    table = properties.LOCAL_NETWORK

    cluster: Output[str]
    claim: Output[str]
    network: Output[Any]
    rails: Output[Any]
    ssh_public_key: Output[str]
    ssh_private_key: Output[str]
    instance: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        network: Input[Mapping[str, Any]],
        rails: Input[Sequence[Mapping[str, Any]]],
        ssh_public_key: Input[str],
        ssh_private_key: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class LocalGroup(Resource):
    """The nodes of one pool, running."""

    table = properties.LOCAL_GROUP

    cluster: Output[str]
    claim: Output[str]
    network_instance: Output[str]
    group: Output[Any]
    rails: Output[Any]
    image: Output[Any]
    drain_timeout_minutes: Output[int]
    generation: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        network_instance: Input[str],
        group: Input[Mapping[str, Any]],
        rails: Input[Sequence[Mapping[str, Any]]],
        image: Input[Mapping[str, Any]],
        drain_timeout_minutes: Input[int],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Take the inputs. The image is {release, content}: the release, and a digest of the effect of its
        installation."""
        super().__init__(name, locals(), opts)


class LocalControlPlane(Resource):
    """The control plane of a Kubernetes, with Kueue and JobSet. Deleting it deletes all its data."""

    table = properties.LOCAL_CONTROL_PLANE

    cluster: Output[str]
    claim: Output[str]
    network_instance: Output[str]
    address: Output[str]
    services_cidr: Output[str]
    pods_cidr: Output[str]
    pods_of_node: Output[int]
    versions: Output[Any]
    kueue: Output[Any]
    kubeconfig: Output[str]
    bootstrap: Output[str]
    authority: Output[str]
    identity: Output[str]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        network_instance: Input[str],
        address: Input[str],
        services_cidr: Input[str],
        pods_cidr: Input[str],
        pods_of_node: Input[int],
        versions: Input[Mapping[str, str]],
        kueue: Input[Mapping[str, Any]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class SimulatedPool(Resource):
    """Simulated nodes on which Kubernetes places pods. The pods appear to run, and nothing runs."""

    table = properties.SIMULATED_POOL

    cluster: Output[str]
    claim: Output[str]
    pool: Output[str]
    labels: Output[Any]
    capacity: Output[Any]
    drain_timeout_minutes: Output[int]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        pool: Input[str],
        labels: Input[Mapping[str, Mapping[str, str]]],
        capacity: Input[Mapping[str, str]],
        drain_timeout_minutes: Input[int],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class JoinedPool(Resource):
    """Nodes that run pods, known to Kubernetes with their labels and resources. They are created and configured
    before."""

    table = properties.JOINED_POOL

    cluster: Output[str]
    claim: Output[str]
    pool: Output[str]
    generation: Output[str]
    authority: Output[str]
    addresses: Output[Any]
    labels: Output[Any]
    accelerators: Output[Any]
    proven: Output[bool]
    drain_timeout_minutes: Output[int]
    drift: Output[Any]

    def __init__(
        self,
        name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        pool: Input[str],
        generation: Input[str],
        authority: Input[str],
        addresses: Input[Mapping[str, str]],
        labels: Input[Mapping[str, Mapping[str, str]]],
        accelerators: Input[Mapping[str, str]],
        proven: Input[bool],
        drain_timeout_minutes: Input[int],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, locals(), opts)


class _Folder(Resource):
    cluster: Output[str]
    claim: Output[str]
    name: Output[str]
    path: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        cluster: Input[str],
        claim: Input[str],
        name: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(resource_name, locals(), opts)


class SharedDirectory(_Folder):
    """A directory that every node sees: the local cloud's parallel file system."""

    table = properties.SHARED_DIRECTORY


class LocalVolume(_Folder):
    """A disk apart from the root disk of the node that mounts it, named <node>-<volume>."""

    table = properties.LOCAL_VOLUME
