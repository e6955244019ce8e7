"""Tables of the resources of clusters on every cloud."""

from __future__ import annotations

from stampworks.properties.table import CLUSTER, Property, PropertyTable

KEYRING = PropertyTable(
    "stampworks:cluster:Keyring",
    inputs={
        "cluster": CLUSTER,
    },
    outputs={
        "sshPublicKey": Property("string", "public key that the cluster's nodes accept", stable=True),
        "sshPrivateKey": Property("string", "private key with which the toolkit logs in", secret=True, stable=True),
        "slurmKey": Property(
            "string", "key by which Slurm's daemons authenticate each other, in base64", secret=True, stable=True
        ),
        "databasePassword": Property("string", "password of the accounting database", secret=True, stable=True),
    },
)
ELASTIC_NODES = PropertyTable(
    "stampworks:cluster:ElasticNodes",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "cloud of the cluster", replaces=True),
        "region": Property("string", "region of that cloud", replaces=True),
        "group": Property("string", "name of the group", replaces=True),
    },
)
ROLL = PropertyTable(
    "stampworks:cluster:Roll",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "cloud of the cluster", replaces=True),
        "groups": Property(
            "array",
            "name and template of each group, and the generation of its members where the engine knows it",
            settled=True,
        ),
        "plan": Property("string", "the plan, as JSON text", silent=True),
        "content": Property("string", "digest of the install parts of the node image", silent=True),
        "playbook": Property("object", "inputs of a run of the cluster's playbook besides the plan", silent=True),
        "programs": Property("string", "digest of the programs that measure", silent=True),
        "fingerprint": Property("string", "fingerprint of the plan, for the certificate", silent=True),
        "secrets": Property("object", "variables that must not be seen, and the signing key", secret=True, silent=True),
    },
    outputs={
        "generations": Property("object", "generation of each group, which changes when a roll replaces members"),
        "certificate": Property("string", "certificate of the nodes that the last roll replaced; may be empty"),
        "drift": Property("array", "nodes that the next roll replaces, with the reasons, in words"),
    },
)
ROSTER = PropertyTable(
    "stampworks:cluster:Roster",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "cloud of the members", replaces=True),
        "region": Property("string", "region of that cloud; may be empty"),
        "groups": Property(
            "string",
            "name of each group, names of its members, and how many of them always run, as JSON text",
            told_as_text=True,
        ),
        "generations": Property(
            "object", "generation of each group, which changes when members are replaced or restarted", required=False
        ),
        "tags": Property("object", "tags for billing, which running machines get, too", required=False),
        "drainTimeoutMinutes": Property(
            "integer", "minutes that nodes which leave may continue their jobs", silent=True
        ),
    },
    outputs={
        "reach": Property("array", "command prefix that runs a command where the members can be reached"),
        "proxy": Property("array", "ProxyCommand of ssh; may be empty"),
        "user": Property("string", "user to log in as"),
        "identityFile": Property("string", "path of the key to log in with"),
        "members": Property("array", "members, with their addresses and host keys"),
        "endings": Property("array", "reserved capacity of members that ends, and its end"),
    },
)
KUBERNETES_NODES = PropertyTable(
    "stampworks:cluster:KubernetesNodes",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "region of that cloud; may be empty"),
        "groups": Property("array", "name of each group, its number of nodes, and their template"),
        "claims": Property("object", "claims by which pods see storage: the volume of each, by name"),
    },
    outputs={
        "members": Property("array", "nodes, with their addresses"),
        "drift": Property("array", "nodes that are missing, in words"),
        "endings": Property("array", "reserved capacity of nodes that ends, and its end"),
    },
)
KUBERNETES_QUEUES = PropertyTable(
    "stampworks:cluster:KubernetesQueues",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "region of that cloud; may be empty"),
        "queues": Property("object", "queues of each team, by name, each with its target"),
    },
    outputs={
        "drift": Property("array", "gangs in queues or teams that are about to be removed, in words"),
    },
)
KUBERNETES_SERVER = PropertyTable(
    "stampworks:cluster:KubernetesServer",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "region of that cloud; may be empty"),
        "server": Property("string", "identity of the server, which no other server has", replaces=True),
    },
)
PLAYBOOK = PropertyTable(
    "stampworks:cluster:Playbook",
    inputs={
        "playbook": Property("string", "file of the playbook, in the folder of playbooks"),
        "inventory": Property("string", "inventory, as JSON text"),
        "roster": Property("object", "roster that the inventory was made from"),
        "digest": Property("string", "digest of all playbooks and roles"),
        "roles": Property("array", "roles of the user, in their order"),
        "secrets": Property("object", "variables that must not be seen", secret=True),
        "timeoutMinutes": Property("integer", "minutes that a run may take"),
        "drainTimeoutMinutes": Property("integer", "minutes that nodes which leave may continue their jobs"),
    },
    outputs={
        "changed": Property("integer", "number of tasks that changed something in the last run"),
        "hosts": Property("integer", "number of hosts of the last run"),
        "drift": Property("array", "differences from the state that the run left, in words; found by a refresh"),
    },
)
SIGNING_KEY = PropertyTable(
    "stampworks:cluster:SigningKey",
    inputs={
        "cluster": CLUSTER,
    },
    outputs={
        "publicKey": Property("string", "public key that verifies certificates, as PEM", stable=True),
        "privateKey": Property("string", "private key that signs certificates, as PEM", secret=True, stable=True),
    },
)
QUALIFICATION = PropertyTable(
    "stampworks:cluster:Qualification",
    inputs={
        "subject": Property(
            "string",
            "subject of the proof: the part of the plan that a proof depends on, as JSON text",
            told_as_text=True,
        ),
        "roster": Property("object", "roster of the cluster"),
        "programs": Property("string", "digest of the programs that measure"),
        "rolled": Property("string", "certificate of the last roll, for nodes that run jobs again", silent=True),
        "fingerprint": Property("string", "fingerprint of the plan, for the certificate", silent=True),
        "signingKey": Property("string", "private key that signs the certificate, as PEM", secret=True),
    },
    outputs={
        "verdict": Property("string", "pass, fail or unknown"),
        "certificate": Property("string", "signed certificate: measurements, expectations and findings, as JSON"),
        "drift": Property("array", "nodes held back since the proof, in words; found by a refresh"),
    },
)
