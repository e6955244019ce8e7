"""Installs Helm releases in a cluster, from a repository of charts on this machine, at a server that exists already."""

from dataclasses import replace

import pulumi
from stampworks.cluster import kubernetes

from tests.schedulers.test_addons import planned

config = pulumi.Config()
plan = planned(config.require("example"))
at_hand = [
    replace(one, repository=config.require("repository"))
    for one in plan.scheduler.addons
    if one.by == "helm" and one.name in config.require("charts").split()
]
plan = replace(plan, scheduler=replace(plan.scheduler, addons=tuple(at_hand)))
provider = pulumi.ProviderResource(
    "kubernetes",
    "server",
    {"kubeconfig": config.require_secret("kubeconfig")},
    pulumi.ResourceOptions(version=kubernetes.PLUGIN),
)
kubernetes.releases("test", plan, pulumi.ResourceOptions(provider=provider))
