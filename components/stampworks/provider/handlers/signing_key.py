"""The key by which certificates are known to be this stack's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks import qualification
from stampworks.provider.handler import Call, Handler, Property


class SigningKey(Handler):
    """An ed25519 key: made once, kept in the stack's state and nowhere else, and never changed."""

    token = "stampworks:cluster:SigningKey"  # noqa: S105
    inputs: ClassVar[Mapping[str, Property]] = {
        "cluster": Property("string", "the cluster's name", replaces=True),
    }
    outputs: ClassVar[Mapping[str, Property]] = {
        "publicKey": Property("string", "with which anybody can verify a certificate, as PEM", stable=True),
        "privateKey": Property("string", "with which certificates are signed, as PEM", secret=True, stable=True),
    }

    async def ensure(self, call: Call) -> dict[str, Any]:
        if kept := await self.read(call):
            return kept
        private, public = qualification.new_key()
        return {"publicKey": public, "privateKey": private}

    async def read(self, call: Call) -> dict[str, Any] | None:
        """The state is the only place where it is."""
        kept = {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}
        return kept if kept.keys() == self.outputs.keys() else None

    async def delete(self, call: Call) -> None:
        pass
