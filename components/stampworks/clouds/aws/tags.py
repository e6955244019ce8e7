"""By what a machine of AWS is known as a node: its tags, which it gets when it is launched or when it joins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Final

from stampworks.plan import Group, Plan, Release, to_dict

CLUSTER: Final = "stampworks:cluster"
GROUP: Final = "stampworks:group"
NODE: Final = "stampworks:node"
"""What it is called; whoever has none is no member yet."""
HOST_KEY: Final = "stampworks:host-key"
"""Its public ssh host key, as its console showed it; before one that was, which its console may go on to show."""
_WAS: Final = "was "
PLACES: Final = "stampworks:places"
"""The domains of AWS's network that it is in, the outermost first, with a space between two."""
TEMPLATE: Final = "stampworks:template"
"""A digest of what it was made from; of a disk that has not come yet there is none."""
ELASTIC: Final = "stampworks:elastic"
"""How a node was bought that starts and stops with the work; those that always run have none."""
CONDEMNED: Final = "stampworks:condemned"
"""Why it is made anew the next time, whatever it was made from."""
MACHINE: Final = "another machine: "
"""What that begins with where a new disk is not enough."""


def cost_tags(plan: Plan) -> dict[str, str]:
    """What is on all that is made, so that costs can be told apart by it."""
    return {**{tag.name: tag.value for tag in plan.tags}, CLUSTER: plan.name}


def template(group: Group, release: Release, content: str) -> str:
    """A digest of what a member can only boot with, whoever it is: another one, and those that run are outdated.

    Its first part is of the machine, its second of what is on its disk.
    """
    launch, *bought = group.started_as
    brought = tuple(each for each in release.hardware if each.name in group.hardware)
    installed = replace(release, kernel=release.kernel if brought else "", hardware=brought, clients=(), boot=())
    image = [group.launch.image, group.launch.published_image, group.launch.prepared] if group.launch else []
    return f"{_digest([to_dict(launch) if launch else {}, *bought])}-{_digest([*image, to_dict(installed), content])}"


def _digest(of: object) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


def of_machine(template_: str) -> str:
    """The first part of a template: also the whole one, of a machine whose disk has not come yet."""
    return template_.partition("-")[0]


def was(host_key: str) -> str:
    """What stands for the key of a disk that goes: whoever reads the console waits for another one."""
    return _WAS + host_key.removeprefix(_WAS)


BUNDLE: Final = "bundle.tar.gz"
"""What nodes that start later find in the cluster's bucket."""


def partition(arn: str) -> str:
    """Which of AWS's worlds it is in, each of which knows its own alone: aws, aws-us-gov, aws-cn."""
    return arn.split(":")[1]


def key_parameter(cluster: str) -> str:
    """Where Slurm's key is, for nodes that configure themselves."""
    return f"/stampworks/{cluster}/slurm-key"


def identity_parameter(cluster: str) -> str:
    """Where the key is that the toolkit logs in with, among the parameters of Systems Manager."""
    return f"/stampworks/{cluster}/identity"


def kubeconfig(region: str, cluster: str, server: str, certificate: str) -> str:
    """How the server of a Kubernetes is asked, by whoever AWS takes the caller for: a token each time, no secret."""
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
