"""What a node does when it boots for the first time, in the words of cloud-init."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAMS = Path(__file__).parent / "tree"
_ON_NODE = "/usr/local/libexec/stampworks"
_LOCKED = 1 << 62
"""Bytes, which are more than any node has. What has no limit nodeadm cannot say: a number goes through floating point,
and would come out as more than a limit can be (amazon-eks-ami 81fec2e8, nodeadm/internal/util/merge.go)."""
_RLIMITS = (("RLIMIT_NOFILE", 65536, 1048576), ("RLIMIT_MEMLOCK", _LOCKED, _LOCKED))
"""Of pods that reach the fabric: soft and hard. The first one is the image's own, whose list this one replaces (the
same, base-runtime-spec.json). Without the second they have what systemd gives containerd, 8 MiB: a NIC is given no
memory with that, and no capability that teams may have would change it."""
_AS_ASKED = """#!/bin/sh
# What hands accelerators to pods names them to containerd: what a variable of an image asks for, nobody has allowed.
command -v nvidia-container-runtime || exit 0
nvidia-ctk config --in-place --set accept-nvidia-visible-devices-envvar-when-unprivileged=false && exit 0
echo "stampworks: nvidia-ctk has failed: pods could have accelerators that they did not ask for, and no node joins so"
systemctl disable --now nodeadm-run
"""


def node_config(
    services: str,
    kubelet: Mapping[str, Any],
    cluster: str,
    server: str,
    certificate: str,
    *,
    array: bool = False,
    rdma: bool = False,
    as_asked: bool = False,
) -> str:
    """What a node of EKS is told of its cluster, in the words of its image's own program (awslabs/amazon-eks-ami,
    nodeadm/doc/api.md, read 2026-11-24): with an image that is named, EKS adds nothing to it. With an `array` the disks
    inside are one, which kubelet and containerd have what is theirs on. With `rdma` pods lock as much memory as they
    want. `as_asked`: they have no accelerators but those that they ask for; the script is through before anything of
    the node starts (the same, nodeadm-run.service; issue 1782)."""
    limits = [{"type": name, "soft": soft, "hard": hard} for name, soft, hard in _RLIMITS]
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
            **({"containerd": {"baseRuntimeSpec": {"process": {"rlimits": limits}}}} if rdma else {}),
            **({"instance": {"localStorage": {"strategy": "RAID0"}}} if array else {}),
        },
    }
    parts = {"application/node.eks.aws": json.dumps(content, sort_keys=True) + "\n"}
    if as_asked:
        parts["text/x-shellscript"] = _AS_ASKED
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n'
    return head + "".join(f"--//\nContent-Type: {kind}\n\n{each}\n" for kind, each in parts.items()) + "--//--\n"


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
