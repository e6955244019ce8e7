"""Nodes that leave the Kubernetes of a local cluster."""

from __future__ import annotations

from collections.abc import Iterable

from stampworks import operations
from stampworks.operations.drain import LEAVES
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.operations.kubernetes.service import KubernetesService
from stampworks.provider.handler import Call


def vacate(call: Call, names: Iterable[str]) -> None:
    """Wait until the pods of nodes have ended. After a timeout the nodes take pods again, and the change fails."""
    if reasons := dict.fromkeys(names, LEAVES):
        service = KubernetesService(KubernetesApi(call.inputs["cluster"], "local", ""))
        timeout = call.inputs.get("drainTimeoutMinutes", 0)  # missing in some states of earlier versions
        operations.vacate(service, reasons, timeout, call.progress)
