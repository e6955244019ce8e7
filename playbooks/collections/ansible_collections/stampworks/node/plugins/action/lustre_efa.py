"""Has Lustre use EFA interfaces of a node."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "lustre_efa"
