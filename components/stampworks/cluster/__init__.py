"""The public components."""

from stampworks.cluster.component import Cluster
from stampworks.cluster.stack import plan_of_stack

__all__ = ["Cluster", "plan_of_stack"]
