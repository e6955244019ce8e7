"""Compares what the image of a vendor brings with the release."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "image_parts"
