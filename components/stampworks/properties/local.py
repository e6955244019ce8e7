"""Tables of the resources of the local cloud."""

from __future__ import annotations

from stampworks.properties.table import CLAIM, CLUSTER, Property, PropertyTable

LOCAL_ROOM = PropertyTable(
    "stampworks:local:LocalRoom",
    inputs={
        "cluster": CLUSTER,
    },
    outputs={
        "claim": Property(
            "string", "name of the stack, and a number that no other stack of that name has", stable=True
        ),
    },
)
LOCAL_NETWORK = PropertyTable(
    "stampworks:local:LocalNetwork",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "network": Property("object", "network of the plan"),
        "rails": Property("array", "rails of the plan's fabric, with their trunks"),
        "sshPublicKey": Property("string", "public key that the nodes accept"),
        "sshPrivateKey": Property("string", "private key with which the toolkit logs in", secret=True),
    },
    outputs={
        # Stable, because a room that ended counts as deleted: an update never changes it.
        "instance": Property(
            "string", "instance of the network, which changes when the room is restarted", stable=True
        ),
        "drift": Property("array", "differences from the declaration, in words"),
    },
)
LOCAL_GROUP = PropertyTable(
    "stampworks:local:LocalGroup",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "networkInstance": Property("string", "instance of the cluster's LocalNetwork"),
        "group": Property("object", "group of the plan, with the name and the addresses of each node"),
        "rails": Property("array", "rails that the group's machine is on"),
        "image": Property("object", "image of the nodes: a release, and the digest of its installation"),
        "drainTimeoutMinutes": Property("integer", "minutes that nodes which leave may continue their jobs"),
    },
    outputs={
        "generation": Property("string", "generation of the members, which changes when one is replaced or restarted"),
        "drift": Property("array", "differences from the declaration, in words"),
    },
)
LOCAL_CONTROL_PLANE = PropertyTable(
    "stampworks:local:LocalControlPlane",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "networkInstance": Property("string", "instance of the cluster's LocalNetwork"),
        "address": Property("string", "address at which nodes reach the room"),
        "servicesCidr": Property("string", "range of the addresses of services", replaces=True),
        "podsCidr": Property("string", "range of the addresses of pods; empty where no node runs any"),
        "podsOfNode": Property("integer", "number of pod addresses that a node takes"),
        "versions": Property("object", "versions of Kubernetes and of its add-ons on this machine"),
        "kueue": Property("object", "configuration of Kueue, without its address"),
    },
    outputs={
        "kubeconfig": Property("string", "kubeconfig of its administrator", secret=True, stable=True),
        "bootstrap": Property("string", "kubeconfig with which a node joins", secret=True, stable=True),
        "authority": Property(
            "string", "identity of the certificate authority, which changes when the authority is replaced", stable=True
        ),
        "identity": Property(
            "string", "identity of the control plane, which changes when it is made anew", stable=True
        ),
        "drift": Property("array", "differences from the declaration, in words"),
    },
)
SIMULATED_POOL = PropertyTable(
    "stampworks:local:SimulatedPool",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "pool": Property("string", "name of the pool", replaces=True),
        "labels": Property("object", "labels of each node, by its name"),
        "capacity": Property("object", "resources that a node offers to pods"),
        "drainTimeoutMinutes": Property(
            "integer", "minutes that machines which had these names may go on with their jobs"
        ),
    },
    outputs={
        "drift": Property("array", "differences from the declaration, in words"),
    },
)
JOINED_POOL = PropertyTable(
    "stampworks:local:JoinedPool",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "pool": Property("string", "name of the pool", replaces=True),
        "labels": Property("object", "labels of each node, by its name"),
        "generation": Property("string", "generation of the members, which changes when one is replaced or restarted"),
        "authority": Property("string", "identity of the certificate authority; when it changes, all nodes join again"),
        "addresses": Property("object", "address of each node, by its name"),
        "accelerators": Property("object", "simulated accelerators, for which no device plug-in exists"),
        "proven": Property(
            "boolean", "whether a proof lets pods onto its nodes; else they take pods once they are known"
        ),
        "drainTimeoutMinutes": Property("integer", "minutes that nodes which leave may continue their jobs"),
    },
    outputs={
        "drift": Property("array", "differences from the declaration, in words"),
    },
)
SHARED_DIRECTORY = PropertyTable(
    "stampworks:local:SharedDirectory",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "name": Property("string", "name, unique among its kind", replaces=True),
    },
    outputs={
        "path": Property("string", "path on this machine", stable=True),
    },
)
LOCAL_VOLUME = PropertyTable(
    "stampworks:local:LocalVolume",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "name": Property("string", "name, unique among its kind", replaces=True),
    },
    outputs={
        "path": Property("string", "path on this machine", stable=True),
    },
)
