"""What a node does when it boots for the first time, in the words of cloud-init."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

_PROGRAMS = Path(__file__).parent / "tree"
_ON_NODE = "/usr/local/libexec/stampworks"


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
    if programs:
        content["write_files"] = [
            {"path": f"{_ON_NODE}/{each}", "permissions": "0755", "content": (_PROGRAMS / each).read_text()}
            for each in programs
        ]
        content["runcmd"] = [[f"{_ON_NODE}/{each}", *arguments] for each, arguments in programs.items()]
    return "#cloud-config\n" + json.dumps(content, sort_keys=True)
