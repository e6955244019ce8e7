"""A Kubernetes that its cloud has just made, before anything asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes.client import Server
from stampworks.provider.handler import Call, Handler, Property


class KubernetesServer(Handler):
    """Is there when a new server answers, or when nobody has heard it for long: whoever asks it next says why."""

    token = "stampworks:cluster:KubernetesServer"  # noqa: S105
    inputs: ClassVar[Mapping[str, Property]] = {
        "cluster": Property("string", "the cluster's name", replaces=True),
        "cloud": Property("string", "the cloud that runs its Kubernetes", replaces=True),
        "region": Property("string", "where that cloud has it; may be empty"),
        "server": Property("string", "what no other server has", replaces=True),
    }

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


def server(call: Call) -> Server:
    """That of the cluster that a resource is about."""
    return Server(call.inputs["cluster"], call.inputs["cloud"], call.inputs["region"])
