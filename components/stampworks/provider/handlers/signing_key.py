"""The key by which certificates are known to be this stack's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stampworks import qualification
from stampworks.provider.handler import Property
from stampworks.provider.handlers.made_once import MadeOnce


class SigningKey(MadeOnce):
    """An ed25519 key."""

    token = "stampworks:cluster:SigningKey"  # noqa: S105
    outputs: ClassVar[Mapping[str, Property]] = {
        "publicKey": Property("string", "with which anybody can verify a certificate, as PEM", stable=True),
        "privateKey": Property("string", "with which certificates are signed, as PEM", secret=True, stable=True),
    }

    @staticmethod
    def make(cluster: str) -> dict[str, Any]:  # noqa: ARG004 (a key is nobody's in particular)
        private, public = qualification.new_key()
        return {"publicKey": public, "privateKey": private}
