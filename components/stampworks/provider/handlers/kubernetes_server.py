"""A Kubernetes that its cloud has just made, before anything asks it."""

from __future__ import annotations

from typing import Any

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.properties import KUBERNETES_SERVER
from stampworks.provider.handler import Call, Handler


class KubernetesServer(Handler):
    """Is there when a new server answers, or when nobody has heard it for long: whoever asks it next says why."""

    table = KUBERNETES_SERVER

    async def ensure(self, call: Call) -> dict[str, Any]:
        """No failure: what does not need it, as nodes to reach it through, may not have to wait for who does."""
        try:
            await call.thread(server(call).awaited, call.progress)
        except OperationError as error:
            call.progress(str(error).splitlines()[0])
        return {}

    async def read(self, call: Call) -> dict[str, Any] | None:  # noqa: ARG002
        return {}

    async def delete(self, call: Call) -> None:
        pass  # its cloud ends it


def server(call: Call) -> KubernetesApi:
    """That of the cluster that a resource is about."""
    return KubernetesApi(call.inputs["cluster"], call.inputs["cloud"], call.inputs["region"])
