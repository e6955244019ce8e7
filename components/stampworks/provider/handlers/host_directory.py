"""A directory that all hosts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks.clouds.hosts import directories
from stampworks.configuration import drift
from stampworks.plan import Hosts, from_dict
from stampworks.properties import HOST_DIRECTORY
from stampworks.provider.handler import Call, Handler


class HostDirectory(Handler):
    """A directory that all hosts share. It exists, and stays as it is."""

    table = HOST_DIRECTORY
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return cluster and path, by which an import names it."""
        return f"{inputs['cluster']}{inputs['path']}"

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Expect the directory on every host that answers."""
        await call.thread(directories.expect, from_dict(Hosts, call.inputs["hosts"]), call.inputs["path"])
        return {"drift": []}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the hosts that lack it as drift."""
        if "hosts" not in call.inputs:
            return None
        without = await call.thread(directories.without, from_dict(Hosts, call.inputs["hosts"]), call.inputs["path"])
        return {"drift": drift.lines("cloud", [(host, why) for host, why in without.items()])}

    async def delete(self, call: Call) -> None:
        """Do nothing: the directory is not ours."""
