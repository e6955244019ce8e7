"""Loads a module of the kernel, or notes that only a reboot can."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "kernel_module"
