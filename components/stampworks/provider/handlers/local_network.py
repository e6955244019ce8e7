"""The networks of one local cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stampworks import machine_room as room
from stampworks import plan
from stampworks.clouds.local.rooms import network_spec, rail_specs
from stampworks.configuration import drift
from stampworks.machine_room.specs import NetworkSpec, RailSpec
from stampworks.properties import LOCAL_NETWORK
from stampworks.provider.handler import Call, Handler


class LocalNetwork(Handler):
    """The machine room of one cluster with its management network, rails, leaves and trunks."""

    table = LOCAL_NETWORK
    refresh = True

    def identity(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the cluster, by which an import names it."""
        return str(inputs["cluster"])

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Start the room, or bring its networks to the declared state."""
        network, rails = _declared(call.inputs)
        keys = call.inputs["sshPrivateKey"], call.inputs["sshPublicKey"]
        place = call.inputs["cluster"], call.inputs["claim"]
        state = await call.thread(room.ensure_room, *place, network, rails, *keys, call.progress)
        return _outputs(state, call.inputs)

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the state of the networks; None if the room is gone or another stack's."""
        if not await call.thread(room.is_ours, call.id, call.inputs.get("claim", "")):
            return None
        state = await call.thread(room.read_room, call.id)
        return None if state is None else _outputs(state, call.inputs)

    async def delete(self, call: Call) -> None:
        """End the room with all processes in it."""
        await call.thread(room.end_room, call.id, call.inputs["claim"])


def _declared(inputs: Mapping[str, Any]) -> tuple[NetworkSpec, list[RailSpec]]:
    rails = rail_specs(plan.from_dict(plan.Rail, rail) for rail in inputs["rails"])
    return network_spec(plan.from_dict(plan.Network, inputs["network"])), rails


def _outputs(state: room.RoomState, inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        wrong = room.room_drift(state, *_declared(inputs)) if "network" in inputs else ()
    except ValueError:  # a plan of an earlier version that cannot be read: `up` writes a new one
        wrong = ()
    return {"instance": state.instance, "drift": drift.lines("cloud", (("network", what) for what in wrong))}
