"""User data for cloud-init: the steps of a node at its first boot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAMS = Path(__file__).parent / "tree"
_ON_NODE = "/usr/local/libexec/stampworks"
_LOCKED = 1 << 62
"""Bytes, more than any node has; stands for "no limit". nodeadm cannot express "unlimited": it passes numbers through
floating point, which would give a value above the valid range (amazon-eks-ami 81fec2e8,
nodeadm/internal/util/merge.go)."""
_RLIMITS = (("RLIMIT_NOFILE", 65536, 1048576), ("RLIMIT_MEMLOCK", _LOCKED, _LOCKED))
"""Limits of pods that reach the fabric: name, soft, hard.

The first is the image's own, because this list replaces the image's (the same, base-runtime-spec.json). Without the
second, pods have the 8 MiB that systemd gives containerd. A NIC gets no memory with that, and no capability that teams
may have changes it.
"""
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
    """Return the settings with which a node joins EKS, for nodeadm, the program of its image.

    With a custom image EKS adds no settings (awslabs/amazon-eks-ami, nodeadm/doc/api.md, read 2026-11-24). `array`
    joins the local disks into one for kubelet and containerd. `rdma` lets pods lock any amount of memory. `as_asked`
    gives pods only the accelerators that they request; its script ends before any service of the node starts (the same,
    nodeadm-run.service; issue 1782).
    """
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
    """Return the user data of a node: root logs in with the cluster's key, through Systems Manager only.

    `agent` is the URL of the agent's package, empty if the image has the agent. A node that configures itself gets
    `joins`, the arguments of its program. YAML includes JSON, so no value can break out of the document.
    """
    programs = {**({"install-agent": [agent]} if agent else {}), **({"join": [*joins]} if joins else {})}
    content = {
        "disable_root": False,
        "users": [],
        "ssh_authorized_keys": [ssh_public_key],  # key of root, the only user
        "ssh_pwauth": False,
        # The toolkit trusts the host keys that a node shows on its console.
        "ssh": {"emit_keys_to_console": True},
        # The playbooks set the node's name and /etc/hosts. Later boots must not change them.
        "preserve_hostname": True,
        "manage_etc_hosts": False,
    }
    return _written({**content, **_started(programs)})


def builder_config(agent: str) -> str:
    """Return the user data of an image builder; empty if its image has the agent.

    The builder is reached through Systems Manager, as the default user of its image.
    """
    return _written(_started({"install-agent": [agent]})) if agent else ""


def _started(programs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the cloud-init settings that write the toolkit's programs to the node and start them with their
    arguments."""
    if not programs:
        return {}
    files = [
        {"path": f"{_ON_NODE}/{each}", "permissions": "0755", "content": (_PROGRAMS / each).read_text()}
        for each in programs
    ]
    return {"write_files": files, "runcmd": [[f"{_ON_NODE}/{each}", *told] for each, told in programs.items()]}


def _written(content: Mapping[str, Any]) -> str:
    return "#cloud-config\n" + json.dumps(content, sort_keys=True)
