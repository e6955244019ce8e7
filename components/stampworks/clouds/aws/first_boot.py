"""What a node does when it boots for the first time, in the words of cloud-init."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAMS = Path(__file__).parent / "tree"
_ON_NODE = "/usr/local/libexec/stampworks"


def node_config(
    services: str, kubelet: Mapping[str, Any], array: bool, cluster: str, server: str, certificate: str
) -> str:
    """What a node of EKS is told of its cluster, in the words of its image's own program (awslabs/amazon-eks-ami,
    nodeadm/doc/api.md, read 2026-11-24): with an image that is named, EKS adds nothing to it. With an `array` the disks
    inside are one, which kubelet and containerd have what is theirs on."""
    content = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": cluster,
                "apiServerEndpoint": server,
                "certificateAuthority": certificate,
                "cidr": services,
            },
            "kubelet": kubelet,
            **({"instance": {"localStorage": {"strategy": "RAID0"}}} if array else {}),
        },
    }
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
    return f"{head}Content-Type: application/node.eks.aws\n\n{json.dumps(content, sort_keys=True)}\n\n--//--\n"


def cloud_config(ssh_public_key: str, agent: str, joins: Sequence[str] = ()) -> str:
    """Who may log in: root with the cluster's key, through a tunnel of Systems Manager and from nowhere else.

    The agent is installed from its package; without one, because the image brings it. A node that nobody configures is
    told what it `joins`. YAML holds all of JSON, so nothing in a value can end it.
    """
    programs = {**({"install-agent": [agent]} if agent else {}), **({"join": [*joins]} if joins else {})}
    content = {
        "disable_root": False,
        "users": [],
        "ssh_authorized_keys": [ssh_public_key],  # of root, since there is no other user
        "ssh_pwauth": False,
        # The public keys that a node shows on its console are those by which it is believed.
        "ssh": {"emit_keys_to_console": True},
        # What a node is called, and what it calls the others, the playbooks say, and no later boot says otherwise.
        "preserve_hostname": True,
        "manage_etc_hosts": False,
    }
    return _written({**content, **_started(programs)})


def builder_config(agent: str) -> str:
    """What an image is made on is reached through Systems Manager, too, as the user that its image has; nothing where
    that brings the agent."""
    return _written(_started({"install-agent": [agent]})) if agent else ""


def _started(programs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Programs of ours, each with what it is told."""
    if not programs:
        return {}
    files = [
        {"path": f"{_ON_NODE}/{each}", "permissions": "0755", "content": (_PROGRAMS / each).read_text()}
        for each in programs
    ]
    return {"write_files": files, "runcmd": [[f"{_ON_NODE}/{each}", *told] for each, told in programs.items()]}


def _written(content: Mapping[str, Any]) -> str:
    return "#cloud-config\n" + json.dumps(content, sort_keys=True)
