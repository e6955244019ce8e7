"""Properties of our Pulumi resources: one table each, for its Python class, its handler and the schema."""

from stampworks.properties.cluster import (
    ELASTIC_NODES,
    KEYRING,
    KUBERNETES_NODES,
    KUBERNETES_QUEUES,
    KUBERNETES_SERVER,
    PLAYBOOK,
    QUALIFICATION,
    ROLL,
    ROSTER,
    SIGNING_KEY,
)
from stampworks.properties.hosts import HOST_DIRECTORY, HOST_GROUP, HOST_NETWORK, HOST_PLACE
from stampworks.properties.local import (
    JOINED_POOL,
    LOCAL_CONTROL_PLANE,
    LOCAL_GROUP,
    LOCAL_NETWORK,
    LOCAL_ROOM,
    LOCAL_VOLUME,
    SHARED_DIRECTORY,
    SIMULATED_POOL,
)
from stampworks.properties.table import Kind, Property, PropertyTable

__all__ = [
    "ELASTIC_NODES",
    "HOST_DIRECTORY",
    "HOST_GROUP",
    "HOST_NETWORK",
    "HOST_PLACE",
    "JOINED_POOL",
    "KEYRING",
    "KUBERNETES_NODES",
    "KUBERNETES_QUEUES",
    "KUBERNETES_SERVER",
    "LOCAL_CONTROL_PLANE",
    "LOCAL_GROUP",
    "LOCAL_NETWORK",
    "LOCAL_ROOM",
    "LOCAL_VOLUME",
    "PLAYBOOK",
    "QUALIFICATION",
    "ROLL",
    "ROSTER",
    "SHARED_DIRECTORY",
    "SIGNING_KEY",
    "SIMULATED_POOL",
    "Kind",
    "Property",
    "PropertyTable",
]
