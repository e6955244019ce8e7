"""Nodes that leave the Kubernetes of a local cluster."""

from __future__ import annotations

from collections.abc import Iterable

from stampworks import operations
from stampworks.operations.drain import LEAVES
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.operations.kubernetes.service import KubernetesService
from stampworks.provider.handler import Call


def vacate(call: Call, names: Iterable[str]) -> None:
    """What runs there ends first; where it does not in time, they take pods again, and the change has failed."""
    if reasons := dict.fromkeys(names, LEAVES):
        service = KubernetesService(KubernetesApi(call.inputs["cluster"], "local", ""))
        timeout = call.inputs.get("drainTimeoutMinutes", 0)  # which earlier versions did not say of some
        operations.vacate(service, reasons, timeout, call.progress)
