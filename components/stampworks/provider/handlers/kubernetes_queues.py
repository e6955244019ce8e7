"""Which teams and queues a Kubernetes is to have, before those go that it has beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes import queues as kubernetes_queues
from stampworks.properties import KUBERNETES_QUEUES
from stampworks.provider.handler import Call, Handler
from stampworks.provider.handlers.kubernetes_server import server


class KubernetesQueues(Handler):
    """Refuses to have a team or a queue go while gangs are in it."""

    table = KUBERNETES_QUEUES
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        return f"{inputs['cloud']}/{inputs['cluster']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        await call.thread(kubernetes_queues.keep, server(call), call.inputs["queues"])
        return {"drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """What an earlier `up` was about to remove when it failed may have been at work since."""
        if not call.inputs:
            return {"drift": []}
        try:
            found = await call.thread(kubernetes_queues.in_what_goes, server(call), call.inputs["queues"])
        except OperationError as error:
            call.progress(f"nobody can be asked which gangs there are: {str(error).splitlines()[0]}")
            return {"drift": []}
        return {"drift": [f"cloud: {each}" for each in found]}

    async def delete(self, call: Call) -> None:
        pass  # it has made nothing
