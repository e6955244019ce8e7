"""Keeps what slurmd has fetched from the controller as the controller has it."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "slurm_cached"
