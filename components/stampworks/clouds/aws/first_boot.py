"""What a node does when it boots for the first time, in the words of cloud-init."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_INSTALL_AGENT = Path(__file__).parent / "tree" / "install-agent"
_ON_NODE = "/usr/local/libexec/stampworks/install-agent"


def cloud_config(ssh_public_key: str, agent: str) -> str:
    """Who may log in: root with the cluster's key, through a tunnel of Systems Manager and from nowhere else.

    The agent is installed from its package; without one, because the image brings it. YAML holds all of JSON, so
    nothing in a value can end it.
    """
    content: dict[str, Any] = {
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
    if agent:
        content["write_files"] = [{"path": _ON_NODE, "permissions": "0755", "content": _INSTALL_AGENT.read_text()}]
        content["runcmd"] = [[_ON_NODE, agent]]
    return "#cloud-config\n" + json.dumps(content, sort_keys=True)
