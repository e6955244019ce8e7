"""Tags of AWS instances that belong to a cluster. They are set at launch or when the instance joins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Final

from stampworks.plan import Group, Plan, Release, to_dict

CLUSTER: Final = "stampworks:cluster"
GROUP: Final = "stampworks:group"
NODE: Final = "stampworks:node"
"""Name of the node. An instance without it is no member yet."""
HOST_KEY: Final = "stampworks:host-key"
"""Public ssh host key from the console; marked with a prefix when a later disk has to have another key."""
_WAS: Final = "was "
PLACES: Final = "stampworks:places"
"""Domains of AWS's network around the node, outermost first, separated by spaces."""
TEMPLATE: Final = "stampworks:template"
"""Digest of the node's template. Its disk part is empty until a new disk exists."""
ELASTIC: Final = "stampworks:elastic"
"""Purchase of an elastic node, which starts and stops with the work. Nodes that always run do not have this tag."""
CONDEMNED: Final = "stampworks:condemned"
"""Reason to renew the node next time, even if its template is current."""
MACHINE: Final = "another machine: "
"""Prefix of that reason when a new disk is not enough."""


def cost_tags(plan: Plan) -> dict[str, str]:
    """Return the tags of all resources, by which costs are allocated."""
    return {**{tag.name: tag.value for tag in plan.tags}, CLUSTER: plan.name}


def template(group: Group, release: Release, content: str) -> str:
    """Return a digest of the settings that a member gets only at boot. When it changes, running members are outdated.

    The first part is for the instance, the second for its disk.
    """
    launch, *bought = group.started_as
    brought = tuple(each for each in release.hardware if each.name in group.hardware)
    installed = replace(release, kernel=release.kernel if brought else "", hardware=brought, clients=(), boot=())
    image = [group.launch.image, group.launch.published_image, group.launch.prepared] if group.launch else []
    return f"{_digest([to_dict(launch) if launch else {}, *bought])}-{_digest([*image, to_dict(installed), content])}"


def _digest(of: object) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


def of_machine(template_: str) -> str:
    """Return the first part of a template. An instance that waits for its disk has no other part."""
    return template_.partition("-")[0]


def was(host_key: str) -> str:
    """Return the mark of the host key on an old disk, so that its reader waits for another key."""
    return _WAS + host_key.removeprefix(_WAS)


BUNDLE: Final = "bundle.tar.gz"
"""Key of the bundle in the cluster's bucket, for nodes that start later."""


def partition(arn: str) -> str:
    """Return AWS's partition in an ARN: aws, aws-us-gov or aws-cn. Partitions are separate."""
    return arn.split(":")[1]


def key_parameter(cluster: str) -> str:
    """Return the parameter that holds Slurm's key, for nodes that configure themselves."""
    return f"/stampworks/{cluster}/slurm-key"


def identity_parameter(cluster: str) -> str:
    """Return the parameter of Systems Manager that holds the toolkit's ssh key."""
    return f"/stampworks/{cluster}/identity"


def kubeconfig(region: str, cluster: str, server: str, certificate: str) -> str:
    """Return a kubeconfig for the caller's AWS identity. kubectl gets a token at each call; the file holds no
    secret."""
    command = ["eks", "get-token", "--cluster-name", cluster, "--region", region, "--output", "json"]
    asks = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": command,
        "interactiveMode": "Never",
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": certificate}}],
        "users": [{"name": cluster, "user": {"exec": asks}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    return json.dumps(content, sort_keys=True)
