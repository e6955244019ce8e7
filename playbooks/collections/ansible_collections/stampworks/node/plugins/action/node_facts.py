"""Looks at the node."""

from __future__ import annotations

import math
import time
from typing import Any

from ansible_collections.stampworks.node.plugins.plugin_utils.on_node import OnNode


class ActionModule(OnNode):
    module = "node_facts"

    def on_node(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        asked = time.time()
        result = super().on_node(arguments, task_vars)
        facts = result.get("ansible_facts", {}).get(self.module)
        if isinstance(facts, dict):
            facts["clock_ahead_s"] = ahead(facts.get("clock"), asked, time.time())
        return result


def ahead(clock: object, asked: float, answered: float) -> float | None:
    """How far a node's clock is ahead of ours at least; below zero when it is behind, None when it told no time.

    It was read at some moment between question and answer, however long that took.
    """
    if type(clock) not in (int, float) or not math.isfinite(clock):  # type: ignore[arg-type]
        return None
    return max(0.0, clock - answered) + min(0.0, clock - asked)  # type: ignore[operator]
