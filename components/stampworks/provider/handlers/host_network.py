"""The list of hosts and the key of a cluster, where the toolkit runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks.clouds.hosts import contact
from stampworks.plan import Hosts, from_dict
from stampworks.properties import HOST_NETWORK
from stampworks.provider.handler import Call, Handler


class HostNetwork(Handler):
    """The list of hosts and the key of the cluster, kept where the toolkit runs. The network itself exists."""

    table = HOST_NETWORK
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the cluster, by which an import names it."""
        return str(inputs["cluster"])

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Write list and key."""
        await call.thread(_keep, call.inputs)
        return {}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Write list and key on a machine that has none: from then on it reaches the cluster, too."""
        if call.inputs and contact.known(call.id) is None:
            await call.thread(_keep, call.inputs)
        return {}

    async def delete(self, call: Call) -> None:
        """Remove list and key."""
        await call.thread(contact.forget, call.id)


def _keep(inputs: Mapping[str, Any]) -> None:
    hosts = from_dict(Hosts, inputs["hosts"])
    contact.keep(inputs["cluster"], inputs["claim"], hosts, inputs["sshPrivateKey"], inputs["sshPublicKey"])
