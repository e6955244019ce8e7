"""Nodes that leave the Kubernetes of a local cluster."""

from __future__ import annotations

from collections.abc import Iterable

from stampworks.operations import kubernetes, kubernetes_nodes
from stampworks.operations.drain import LEAVES
from stampworks.provider.handler import Call


def vacate(call: Call, names: Iterable[str]) -> None:
    """What runs there ends first; where it does not in time, they take pods again, and the change has failed."""
    if reasons := dict.fromkeys(names, LEAVES):
        server, timeout = kubernetes.Server(call.inputs["cluster"], "local", ""), call.inputs["drainTimeoutMinutes"]
        kubernetes_nodes.vacate(server, reasons, timeout, call.progress)
