"""Declare a GPU training cluster once, stamp it out identically on any cloud, prove it before anyone trains on it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampworks.cluster import Cluster, plan_of_stack
    from stampworks.declaration import (
        Account,
        AddOns,
        Budget,
        Check,
        Checkpoints,
        Declaration,
        Directory,
        Extras,
        Fabric,
        Fallback,
        Model,
        Network,
        Pool,
        Priority,
        Proof,
        Queue,
        Role,
        Scheduler,
        Storage,
        Tracker,
        Training,
        User,
    )
    from stampworks.plan import Plan, to_json

__all__ = [
    "Account",
    "AddOns",
    "Budget",
    "Check",
    "Checkpoints",
    "Cluster",
    "Declaration",
    "Directory",
    "Extras",
    "Fabric",
    "Fallback",
    "Model",
    "Network",
    "Plan",
    "Pool",
    "Priority",
    "Proof",
    "Queue",
    "Role",
    "Scheduler",
    "Storage",
    "Tracker",
    "Training",
    "User",
    "plan_of_stack",
    "to_json",
]

_ROOMS = {"Cluster": "cluster", "plan_of_stack": "cluster", "Plan": "plan", "to_json": "plan"}


def __getattr__(name: str) -> Any:
    """Imports a part when a program asks for it: the command line and the plugin do without Pulumi's SDK."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS.get(name, 'declaration')}"), name)
