"""Assembly of a cluster whose scheduler is Kubernetes: what every cloud's own one is given.

Objects are resources of Pulumi's plugin for Kubernetes, by their tokens and without its SDK, whose classes would take a
second of every preview and have no place for what an object has beside its spec.
"""

from __future__ import annotations

from typing import Any

import pulumi

from stampworks.plan import Plan
from stampworks.schedulers import kubernetes
from stampworks.schedulers.kubernetes import Manifest

PLUGIN = "4.34.2"
"""The version of Pulumi's plugin for Kubernetes."""


def control_plane(parent: pulumi.Resource, base: str, plan: Plan, scheduler: Any, network: Any) -> Any:
    """That of the cloud, with a kubeconfig."""
    return scheduler.create(
        base,
        plan=plan,
        network=network,
        opts=pulumi.ResourceOptions(parent=parent, protect=plan.scheduler.protect),  # all jobs and queues are in it
    )


def assemble(
    parent: pulumi.Resource, base: str, plan: Plan, scheduler: Any, control_plane: Any
) -> dict[str, pulumi.Resource]:
    """What the control plane is given: nodes for scheduling only, and the cluster's objects. Returns its namespaces."""
    labels = kubernetes.node_labels(plan)
    for group in plan.scheduling_only:
        scheduler.create_simulated(
            f"{base}-{group.name}",
            cluster=plan.name,
            control_plane=control_plane,
            group=group,
            labels=labels,
            capacity=kubernetes.capacity(group),
            opts=pulumi.ResourceOptions(parent=parent),
        )
    # Without the word it would stand in every preview and in the state for all to read.
    settings = {"kubeconfig": pulumi.Output.secret(control_plane.kubeconfig)}
    provider = pulumi.ProviderResource(
        "kubernetes", base, settings, pulumi.ResourceOptions(parent=parent, version=PLUGIN)
    )
    server = scheduler.server(control_plane)
    return _objects(base, plan, pulumi.ResourceOptions(parent=parent, provider=provider, deleted_with=server))


def _objects(base: str, plan: Plan, opts: pulumi.ResourceOptions) -> dict[str, pulumi.Resource]:
    """One resource for each, in its namespace after that. Returns the namespaces."""
    namespaces: dict[str, pulumi.Resource] = {}
    for manifest in kubernetes.objects(plan):
        metadata = manifest["metadata"]
        within = metadata.get("namespace", "")
        after = pulumi.ResourceOptions(depends_on=[namespaces[within]] if within else [])
        # Names are part of every stack's state: a change here makes the object anew, unless it carries an alias.
        name = "-".join(filter(None, [base, manifest["kind"].lower(), within, metadata["name"]]))
        made = pulumi.CustomResource(_token(manifest), name, manifest, pulumi.ResourceOptions.merge(opts, after))
        if manifest["kind"] == "Namespace":
            namespaces[metadata["name"]] = made
    return namespaces


def _token(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
