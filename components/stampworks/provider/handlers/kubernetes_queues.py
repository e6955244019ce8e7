"""Teams and queues that a Kubernetes will keep, checked before the others are removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks.operations.errors import OperationError
from stampworks.operations.kubernetes import queues as kubernetes_queues
from stampworks.properties import KUBERNETES_QUEUES
from stampworks.provider.handler import Call, Handler
from stampworks.provider.handlers.kubernetes_server import server


class KubernetesQueues(Handler):
    """Refuses to remove a team or a queue while gangs are in it."""

    table = KUBERNETES_QUEUES
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cloud and cluster, by which an import names it."""
        return f"{inputs['cloud']}/{inputs['cluster']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Refuse to remove teams and queues in which gangs still are."""
        await call.thread(kubernetes_queues.keep, server(call), call.inputs["queues"])
        return {"drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Report gangs in teams and queues that are still to be removed.

        An earlier `up` may have failed before it removed them, and they may have been used since.
        """
        if not call.inputs:
            return {"drift": []}
        try:
            found = await call.thread(kubernetes_queues.in_what_goes, server(call), call.inputs["queues"])
        except OperationError as error:
            call.progress(f"its gangs cannot be listed: {str(error).splitlines()[0]}")
            return {"drift": []}
        return {"drift": [f"cloud: {each}" for each in found]}

    async def delete(self, call: Call) -> None:
        """Do nothing: the resource creates nothing."""
