"""Declare a GPU training cluster once, stamp it out identically on any cloud, prove it before anyone trains on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampworks.cluster import Cluster, plan_of_stack

__all__ = ["Cluster", "plan_of_stack"]


def __getattr__(name: str) -> Any:
    """Imports the components when a program asks for one: the command line and the plugin do without Pulumi's SDK."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stampworks import cluster

    return getattr(cluster, name)
