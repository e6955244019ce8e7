"""Gives the Slurm controller a configuration that was tried first."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "slurm_controller"
