"""Python classes of the toolkit's Pulumi resources."""

from stampworks.resources.cluster import (
    ElasticNodes,
    Keyring,
    KubernetesNodes,
    KubernetesQueues,
    KubernetesServer,
    Playbook,
    Qualification,
    Roll,
    Roster,
    SigningKey,
)
from stampworks.resources.hosts import HostDirectory, HostGroup, HostNetwork, HostPlace
from stampworks.resources.local import (
    JoinedPool,
    LocalControlPlane,
    LocalGroup,
    LocalNetwork,
    LocalRoom,
    LocalVolume,
    SharedDirectory,
    SimulatedPool,
)

__all__ = [
    "ElasticNodes",
    "HostDirectory",
    "HostGroup",
    "HostNetwork",
    "HostPlace",
    "JoinedPool",
    "Keyring",
    "KubernetesNodes",
    "KubernetesQueues",
    "KubernetesServer",
    "LocalControlPlane",
    "LocalGroup",
    "LocalNetwork",
    "LocalRoom",
    "LocalVolume",
    "Playbook",
    "Qualification",
    "Roll",
    "Roster",
    "SharedDirectory",
    "SigningKey",
    "SimulatedPool",
]
