"""The owner of all resources of an AWS cluster: the provider of its region, and the tags that name the cluster."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi import ResourceOptions
from pulumi_aws import Provider

from stampworks.clouds.aws import tags
from stampworks.plan import AccountTerms, Plan


class Owner(pulumi.ComponentResource):
    """The part of a cluster's place that all resources need, including the resources of the place itself."""

    cluster: str
    account: AccountTerms
    provider: Provider
    """Provider of the declaration's region. It ignores the region that this machine's environment sets."""

    def __init__(self, token: str, name: str, plan: Plan, opts: ResourceOptions) -> None:
        super().__init__(token, name, None, opts)
        self.cluster = plan.name
        self.account = plan.account
        self._common = tags.cost_tags(plan)
        self.provider = Provider(
            name,
            region=plan.region,
            # these tags are written on running nodes, and are no change of the declaration
            ignore_tags={"keys": [tags.HOST_KEY, tags.PLACES, tags.CONDEMNED]},
            opts=ResourceOptions(parent=self),
        )

    def role_terms(self) -> dict[str, Any]:
        """Return the arguments that the account's owners require for every role; None for others."""
        return {
            "path": self.account.role_path or None,
            "permissions_boundary": self.account.permissions_boundary or None,
        }

    @property
    def key(self) -> str | None:
        """Return the key that encrypts disks, file systems, buckets and databases; None for AWS's own."""
        return self.account.key or None

    def within(self, opts: ResourceOptions) -> ResourceOptions:
        """Return the options of a resource in this region."""
        return ResourceOptions.merge(opts, ResourceOptions(provider=self.provider))

    def tags(self, name: str) -> dict[str, str]:
        """Return the tags of one resource: its name in the console, the cluster, and the declared tags."""
        return {**self._common, "Name": f"{self.cluster}-{name}"}
