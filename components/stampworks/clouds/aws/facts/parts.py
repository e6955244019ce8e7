"""Versions of EKS add-ons for a Kubernetes version."""

from __future__ import annotations

from stampworks.clouds.aws.session import Api

VERSIONS = "eks:DescribeAddonVersions"


def default_version(api: Api, addon: str, kubernetes: str) -> str | None:
    """Return the version that EKS installs by default; None if EKS has no such add-on."""
    found = api.ask(VERSIONS, addonName=addon, kubernetesVersion=kubernetes)["addons"]
    for one in (version for each in found for version in each["addonVersions"]):
        fits = [each for each in one.get("compatibilities", ()) if each.get("clusterVersion") == kubernetes]
        if any(each.get("defaultVersion") for each in fits):
            return str(one["addonVersion"])
    return None
