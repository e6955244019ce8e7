"""Keeps programs that are built from the source that the release names."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "built"
