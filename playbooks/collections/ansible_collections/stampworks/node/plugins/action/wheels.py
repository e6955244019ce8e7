"""Keeps an environment of Python with what a lock says."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "wheels"
