"""Tables of the resources of the local cloud."""

from __future__ import annotations

from stampworks.properties.table import CLAIM, CLUSTER, Property, PropertyTable

LOCAL_ROOM = PropertyTable(
    "stampworks:local:LocalRoom",
    inputs={
        "cluster": CLUSTER,
    },
    outputs={
        "claim": Property("string", "the stack, and a number that no other stack of that name has", stable=True),
    },
)
LOCAL_NETWORK = PropertyTable(
    "stampworks:local:LocalNetwork",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "network": Property("object", "the plan's network"),
        "rails": Property("array", "the rails of the plan's fabric, with their trunks"),
        "sshPublicKey": Property("string", "what the nodes let in"),
        "sshPrivateKey": Property("string", "what the toolkit logs in with", secret=True),
    },
    outputs={
        # Stable, because a room that ended counts as deleted: an update never changes it.
        "instance": Property("string", "another one after the room was started anew", stable=True),
        "drift": Property("array", "what is not as declared, in words"),
    },
)
LOCAL_GROUP = PropertyTable(
    "stampworks:local:LocalGroup",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "networkInstance": Property("string", "the instance of the cluster's LocalNetwork"),
        "group": Property("object", "the plan's group, with the name and the addresses of each node"),
        "rails": Property("array", "the rails that the group's machine is on"),
        "image": Property("object", "what nodes boot from: a release, and a digest of what installs it"),
        "drainTimeoutMinutes": Property("integer", "how long nodes that leave may go on with their jobs"),
    },
    outputs={
        "generation": Property("string", "another one when a member is another or was started anew"),
        "drift": Property("array", "what is not as declared, in words"),
    },
)
LOCAL_CONTROL_PLANE = PropertyTable(
    "stampworks:local:LocalControlPlane",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "networkInstance": Property("string", "the instance of the cluster's LocalNetwork"),
        "address": Property("string", "the room's own address, where nodes reach it"),
        "servicesCidr": Property("string", "the range of the addresses of services", replaces=True),
        "podsCidr": Property("string", "the range of the addresses of pods; empty where no node runs any"),
        "podsOfNode": Property("integer", "how many addresses of it a node takes"),
        "versions": Property("object", "the version of Kubernetes and of each part that it is extended by, here"),
        "kueue": Property("object", "what Kueue is told, but for where it is found"),
    },
    outputs={
        "kubeconfig": Property("string", "with what its administrator asks it", secret=True, stable=True),
        "bootstrap": Property("string", "with what a node asks to become one", secret=True, stable=True),
        "authority": Property("string", "another one when another authority vouches for everybody", stable=True),
        "identity": Property("string", "another one when it is another Kubernetes", stable=True),
        "drift": Property("array", "what is not as declared, in words"),
    },
)
SIMULATED_POOL = PropertyTable(
    "stampworks:local:SimulatedPool",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "pool": Property("string", "the pool's name", replaces=True),
        "labels": Property("object", "the labels of each node, by its name"),
        "capacity": Property("object", "what a node has for pods"),
        "drainTimeoutMinutes": Property("integer", "how long machines that had these names may go on with their jobs"),
    },
    outputs={
        "drift": Property("array", "what is not as declared, in words"),
    },
)
JOINED_POOL = PropertyTable(
    "stampworks:local:JoinedPool",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "pool": Property("string", "the pool's name", replaces=True),
        "labels": Property("object", "the labels of each node, by its name"),
        "generation": Property("string", "another one when a member is another or was started anew"),
        "authority": Property("string", "another one when all nodes have to join again"),
        "addresses": Property("object", "the address of each node, by its name"),
        "accelerators": Property("object", "what stands for accelerators, which no device plug-in speaks for"),
        "proven": Property(
            "boolean", "whether a proof lets pods onto its nodes; else they take pods once they are known"
        ),
        "drainTimeoutMinutes": Property("integer", "how long nodes that leave may go on with their jobs"),
    },
    outputs={
        "drift": Property("array", "what is not as declared, in words"),
    },
)
SHARED_DIRECTORY = PropertyTable(
    "stampworks:local:SharedDirectory",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "name": Property("string", "what it is called among its kind", replaces=True),
    },
    outputs={
        "path": Property("string", "where it is on this machine", stable=True),
    },
)
LOCAL_VOLUME = PropertyTable(
    "stampworks:local:LocalVolume",
    inputs={
        "cluster": CLUSTER,
        "claim": CLAIM,
        "name": Property("string", "what it is called among its kind", replaces=True),
    },
    outputs={
        "path": Property("string", "where it is on this machine", stable=True),
    },
)
