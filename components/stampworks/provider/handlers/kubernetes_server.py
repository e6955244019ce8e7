"""A Kubernetes that its cloud has just created, before the first request."""

from __future__ import annotations

from typing import Any

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes.client import KubernetesApi
from stampworks.properties import KUBERNETES_SERVER
from stampworks.provider.handler import Call, Handler


class KubernetesServer(Handler):
    """Waits until a new server answers, or until a time limit. After that the next request reports the reason."""

    table = KUBERNETES_SERVER

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Wait for the server without failing.

        Resources that do not need the server, such as nodes on the way to it, must not wait for those that do.
        """
        try:
            await call.thread(server(call).awaited, call.progress)
        except OperationError as error:
            call.progress(str(error).splitlines()[0])
        return {}

    async def read(self, call: Call) -> dict[str, Any] | None:  # noqa: ARG002
        """Return no outputs: a refresh does not wait for the server."""
        return {}

    async def delete(self, call: Call) -> None:
        """Do nothing: the cloud's own resource deletes the server."""


def server(call: Call) -> KubernetesApi:
    """Return the server of the resource's cluster."""
    return KubernetesApi(call.inputs["cluster"], call.inputs["cloud"], call.inputs["region"])
