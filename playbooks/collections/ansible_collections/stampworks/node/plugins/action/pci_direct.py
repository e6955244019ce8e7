"""Sees that PCI devices reach each other directly, or notes that only a reboot helps."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "pci_direct"
