"""The owner of all resources of an AWS cluster: the provider of its region, and tags that say whose they are."""

from __future__ import annotations

import pulumi
from pulumi import ResourceOptions
from pulumi_aws import Provider

from stampworks.clouds.aws import tags
from stampworks.plan import Plan


class Owner(pulumi.ComponentResource):
    """The part of a cluster's place that resources of any kind need, those that the place makes itself among them."""

    cluster: str
    provider: Provider
    """Of the declaration's region, whatever the machine that runs this has set."""

    def __init__(self, token: str, name: str, plan: Plan, opts: ResourceOptions) -> None:
        super().__init__(token, name, None, opts)
        self.cluster = plan.name
        self._common = tags.cost_tags(plan)
        self.provider = Provider(
            name,
            region=plan.region,
            # what is written on a machine while it runs is no difference to what was declared
            ignore_tags={"keys": [tags.HOST_KEY, tags.PLACES, tags.CONDEMNED]},
            opts=ResourceOptions(parent=self),
        )

    def within(self, opts: ResourceOptions) -> ResourceOptions:
        """Return the options of a resource in this region."""
        return ResourceOptions.merge(opts, ResourceOptions(provider=self.provider))

    def tags(self, name: str) -> dict[str, str]:
        """Return the tags of one resource: its name in the console, whose it is, and what the declaration says."""
        return {**self._common, "Name": f"{self.cluster}-{name}"}
