"""How a Kubernetes of AWS is asked: by kubectl, as whoever AWS takes the caller for, from where its network is."""

from __future__ import annotations

import shutil

from stampworks.clouds.aws import tags
from stampworks.clouds.aws.session import ALLOW, PERMIT, Api, UnansweredError
from stampworks.operations.errors import UnknownError
from stampworks.paths import state_dir, write_whole

_INSTALL = "install kubectl, and the AWS CLI, which it gets its token from"


def kubectl(cluster: str, region: str) -> tuple[str, ...]:
    """Begins a command that asks it; nothing where none runs. UnknownError where nobody can say."""
    whole = f"AWS {region}: the Kubernetes of cluster {cluster}"
    try:
        found = Api(region).ask("eks:DescribeCluster", name=cluster)["cluster"]
    except UnansweredError as error:
        if error.code == "ResourceNotFoundException":
            return ()
        raise UnknownError(f"{whole}: {error}", ALLOW if error.hint == PERMIT else error.hint) from None
    if found.get("status") not in ("ACTIVE", "UPDATING"):
        return ()
    program = shutil.which("kubectl")
    if program is None:
        raise UnknownError(f"{whole}: there is no kubectl here", _INSTALL)
    file = state_dir() / "aws" / region / cluster / "kubeconfig"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, tags.kubeconfig(region, cluster, found["endpoint"], found["certificateAuthority"]["data"]))
    return (program, "--kubeconfig", str(file))
