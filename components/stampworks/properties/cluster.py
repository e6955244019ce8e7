"""Tables of the resources of clusters on every cloud."""

from __future__ import annotations

from stampworks.properties.table import CLUSTER, Property, PropertyTable

KEYRING = PropertyTable(
    "stampworks:cluster:Keyring",
    inputs={
        "cluster": CLUSTER,
    },
    outputs={
        "sshPublicKey": Property("string", "what the cluster's nodes let in", stable=True),
        "sshPrivateKey": Property("string", "what the toolkit logs in with", secret=True, stable=True),
        "slurmKey": Property("string", "by which Slurm's daemons know each other, in base64", secret=True, stable=True),
        "databasePassword": Property("string", "of the accounting database", secret=True, stable=True),
    },
)
ELASTIC_NODES = PropertyTable(
    "stampworks:cluster:ElasticNodes",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "the cloud that it is on", replaces=True),
        "region": Property("string", "where that cloud has them", replaces=True),
        "group": Property("string", "the group", replaces=True),
    },
)
ROLL = PropertyTable(
    "stampworks:cluster:Roll",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "the cloud that it is on", replaces=True),
        "groups": Property(
            "array",
            "of each group its name, template, and the generation of its members where the engine knows that",
            settled=True,
        ),
        "plan": Property("string", "the plan, as JSON text", silent=True),
        "content": Property("string", "a digest of what the image's installation does", silent=True),
        "playbook": Property("object", "what a run of the cluster's playbook needs besides the plan", silent=True),
        "programs": Property("string", "a digest of the programs that measure", silent=True),
        "fingerprint": Property("string", "of the plan, for the certificate", silent=True),
        "secrets": Property("object", "variables that must not be seen, and the signing key", secret=True, silent=True),
    },
    outputs={
        "generations": Property("object", "of each group, another one when the last roll has left other members"),
        "certificate": Property("string", "what was measured of the nodes that the last roll made anew; may be empty"),
        "drift": Property("array", "the nodes that the next roll makes anew, and why, in words"),
    },
)
ROSTER = PropertyTable(
    "stampworks:cluster:Roster",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "the cloud whose members they are", replaces=True),
        "region": Property("string", "where that cloud has them; may be empty"),
        "groups": Property(
            "string",
            "of each group its name, its members' names, and how many of them always run, as JSON text",
            told_as_text=True,
        ),
        "generations": Property(
            "object", "of each group, another one when its members are others or were restarted", required=False
        ),
        "tags": Property("object", "what bills are read by, on machines that run, too", required=False),
        "drainTimeoutMinutes": Property("integer", "how long nodes that leave may go on with their jobs", silent=True),
    },
    outputs={
        "reach": Property("array", "command that runs another one where the members can be reached"),
        "proxy": Property("array", "command that ssh talks through; may be empty"),
        "user": Property("string", "whom to log in as"),
        "identityFile": Property("string", "path of the key to log in with"),
        "members": Property("array", "the members, with their addresses and host keys"),
        "endings": Property("array", "capacity that members are in and that ends, and when"),
    },
)
KUBERNETES_NODES = PropertyTable(
    "stampworks:cluster:KubernetesNodes",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "the cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "where that cloud has it; may be empty"),
        "groups": Property("array", "of each group its name, how many nodes it has, and what they are made from"),
        "claims": Property("object", "what pods see of the storage: where each leads, by its name"),
    },
    outputs={
        "members": Property("array", "the nodes, with their addresses"),
        "drift": Property("array", "what is missing, in words"),
        "endings": Property("array", "capacity that nodes are in and that ends, and when"),
    },
)
KUBERNETES_QUEUES = PropertyTable(
    "stampworks:cluster:KubernetesQueues",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "the cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "where that cloud has it; may be empty"),
        "queues": Property("object", "of each team its queues, by name, and what each leads to"),
    },
    outputs={
        "drift": Property("array", "gangs in what is about to go, in words"),
    },
)
KUBERNETES_SERVER = PropertyTable(
    "stampworks:cluster:KubernetesServer",
    inputs={
        "cluster": CLUSTER,
        "cloud": Property("string", "the cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "where that cloud has it; may be empty"),
        "server": Property("string", "what no other server has", replaces=True),
    },
)
PLAYBOOK = PropertyTable(
    "stampworks:cluster:Playbook",
    inputs={
        "playbook": Property("string", "its file, in the folder of playbooks"),
        "inventory": Property("string", "the inventory, as JSON text"),
        "roster": Property("object", "the roster that the inventory was made from"),
        "digest": Property("string", "a digest of all playbooks and roles"),
        "roles": Property("array", "the user's own roles, in their order"),
        "secrets": Property("object", "variables that must not be seen", secret=True),
        "timeoutMinutes": Property("integer", "how long it may take"),
        "drainTimeoutMinutes": Property("integer", "how long nodes that leave may go on with their jobs"),
    },
    outputs={
        "changed": Property("integer", "how many tasks changed something in the last run"),
        "hosts": Property("integer", "on how many hosts it ran"),
        "drift": Property("array", "what is not as it left it, in words; looked for when the stack is refreshed"),
    },
)
SIGNING_KEY = PropertyTable(
    "stampworks:cluster:SigningKey",
    inputs={
        "cluster": CLUSTER,
    },
    outputs={
        "publicKey": Property("string", "with which anybody can verify a certificate, as PEM", stable=True),
        "privateKey": Property("string", "with which certificates are signed, as PEM", secret=True, stable=True),
    },
)
QUALIFICATION = PropertyTable(
    "stampworks:cluster:Qualification",
    inputs={
        "subject": Property(
            "string", "what is proven: the part of the plan that a proof depends on, as JSON text", told_as_text=True
        ),
        "roster": Property("object", "who is in the cluster"),
        "programs": Property("string", "a digest of the programs that measure"),
        "rolled": Property("string", "the certificate of the last roll: of nodes that have jobs again", silent=True),
        "fingerprint": Property("string", "of the plan, for the certificate", silent=True),
        "signingKey": Property("string", "with which the certificate is signed, as PEM", secret=True),
    },
    outputs={
        "verdict": Property("string", "pass, fail or unknown"),
        "certificate": Property("string", "the signed certificate: what was measured, expected and found, as JSON"),
        "drift": Property("array", "who is held back since, in words; looked for when the stack is refreshed"),
    },
)
