"""Which versions of its own add-ons EKS has for a Kubernetes."""

from __future__ import annotations

from stampworks.clouds.aws.session import Api

VERSIONS = "eks:DescribeAddonVersions"


def default_version(api: Api, addon: str, kubernetes: str) -> str | None:
    """The one that EKS installs where nobody names another; None where it has none."""
    found = api.ask(VERSIONS, addonName=addon, kubernetesVersion=kubernetes)["addons"]
    for one in (version for each in found for version in each["addonVersions"]):
        fits = [each for each in one.get("compatibilities", ()) if each.get("clusterVersion") == kubernetes]
        if any(each.get("defaultVersion") for each in fits):
            return str(one["addonVersion"])
    return None
