"""Access to the Kubernetes of an AWS cluster: kubectl with the caller's AWS identity, within reach of its network."""

from __future__ import annotations

import shutil

from stampworks.clouds.aws import tags
from stampworks.clouds.aws.session import ALLOW, PERMIT, SIGN_IN, Api, AwsUnansweredError
from stampworks.operations.errors import UnknownError
from stampworks.state.paths import state_dir, write_whole

_INSTALL = "install kubectl, and the AWS CLI, from which kubectl gets its token"
_ENTER = (
    "its creator, scheduler.admins, and the roles of declared users have access: `aws sts get-caller-identity` shows "
    "your identity"
)
_REACH = (
    "connect from a place that reaches the cluster's network, or write your public range into scheduler.api_from: "
    "see docs/how-to/aws-eks.md"
)
_REMEDIES = {
    "getting credentials": SIGN_IN,
    "You must be logged in": _ENTER,
    "(Forbidden)": _ENTER,
    "have a resource type": "run `pulumi up` from a machine that reaches its server: it creates the missing parts",
}
"""Hints by a text in kubectl's error."""


def kubectl(cluster: str, region: str) -> tuple[str, ...]:
    """Return the start of a kubectl command for the cluster; empty if the cluster does not run.

    Raise UnknownError when that cannot be found out.
    """
    config = _config(cluster, region)
    if not config:
        return ()
    programs = {name: shutil.which(name) for name in ("kubectl", "aws")}
    program = programs["kubectl"]
    if program is None or programs["aws"] is None:
        missing = " and no ".join(name for name, path in programs.items() if path is None)
        raise UnknownError(f"{_whole(cluster, region)}: there is no {missing} here", _INSTALL)
    file = state_dir() / "aws" / region / cluster / "kubeconfig"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, config)
    return (program, "--kubeconfig", str(file))


def user_config(cluster: str, region: str, user: str) -> str:  # noqa: ARG001  (AWS says who asks)
    """Return a kubeconfig without a secret: users assume the role that the declaration gives them."""
    return _config(cluster, region)


def _config(cluster: str, region: str) -> str:
    try:
        found = Api(region).ask("eks:DescribeCluster", name=cluster)["cluster"]
    except AwsUnansweredError as error:
        if error.code == "ResourceNotFoundException":
            return ""
        hint = ALLOW if error.hint == PERMIT else error.hint
        raise UnknownError(f"{_whole(cluster, region)}: {error}", hint) from None
    if found.get("status") not in ("ACTIVE", "UPDATING"):
        return ""
    return tags.kubeconfig(region, cluster, found["endpoint"], found["certificateAuthority"]["data"])


def _whole(cluster: str, region: str) -> str:
    return f"AWS {region}: the Kubernetes of cluster {cluster}"


def remedy(why: str) -> str:
    """Return the hint for a failed kubectl.

    The default is the network: no `up` opens the server to a caller without access or from another place.
    """
    return next((hint for said, hint in _REMEDIES.items() if said in why), _REACH)
