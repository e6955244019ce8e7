"""Tables of the resources of clusters on hosts."""

from __future__ import annotations

from stampworks.properties.table import CLUSTER, Property, PropertyTable

_CLAIM = Property("string", "claim of the cluster's HostPlace")
_HOSTS = Property("object", "hosts of the plan: the machines, and the way to them")
_DRIFT = Property("array", "differences from the declaration, in words")

HOST_PLACE = PropertyTable(
    "stampworks:hosts:HostPlace",
    inputs={
        "cluster": CLUSTER,
        "hosts": _HOSTS,
    },
    outputs={
        "claim": Property(
            "string", "name of the stack, and a number that no other stack of that name has", stable=True
        ),
    },
)
HOST_NETWORK = PropertyTable(
    "stampworks:hosts:HostNetwork",
    inputs={
        "cluster": CLUSTER,
        "claim": _CLAIM,
        "hosts": _HOSTS,
        "sshPublicKey": Property("string", "public key of the cluster, which its nodes accept"),
        "sshPrivateKey": Property("string", "private key with which the toolkit logs in", secret=True),
    },
)
HOST_GROUP = PropertyTable(
    "stampworks:hosts:HostGroup",
    inputs={
        "cluster": CLUSTER,
        "claim": _CLAIM,
        "hosts": Property("object", "hosts that may be nodes of the group, and the way to them"),
        "sshPublicKey": Property("string", "public key of the cluster, which its nodes accept"),
        "group": Property("object", "group of the plan, with the name of each node"),
        "madeWith": Property("string", "digest of the settings with which hosts are configured"),
        "drainTimeoutMinutes": Property("integer", "minutes that nodes which leave may continue their jobs"),
    },
    outputs={
        "generation": Property("string", "generation of the members, which changes when one is replaced or restarted"),
        "drift": _DRIFT,
    },
)
HOST_DIRECTORY = PropertyTable(
    "stampworks:hosts:HostDirectory",
    inputs={
        "cluster": CLUSTER,
        "claim": _CLAIM,
        "hosts": _HOSTS,
        "path": Property("string", "path of the directory on every host", replaces=True),
    },
    outputs={
        "drift": _DRIFT,
    },
)
