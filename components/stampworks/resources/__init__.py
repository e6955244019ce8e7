"""The Python face of our own Pulumi resources."""

from stampworks.resources.cluster import ElasticNodes, Keyring, Playbook, Qualification, Roll, Roster, SigningKey
from stampworks.resources.local import (
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
    "Keyring",
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
