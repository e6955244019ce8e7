"""The public components."""

from stampworks.cluster.component import Cluster
from stampworks.cluster.stack import PlanRefusedError, plan_of_stack

__all__ = ["Cluster", "PlanRefusedError", "plan_of_stack"]
