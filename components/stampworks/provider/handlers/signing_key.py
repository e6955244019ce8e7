"""Key that signs the certificates of this stack."""

from __future__ import annotations

from typing import Any

from stampworks import qualification
from stampworks.properties import SIGNING_KEY
from stampworks.provider.handlers.made_once import MadeOnce


class SigningKey(MadeOnce):
    """An ed25519 key for signing certificates."""

    table = SIGNING_KEY

    @staticmethod
    def make(cluster: str) -> dict[str, Any]:  # noqa: ARG004 (a key is nobody's in particular)
        """Return a new pair of keys; the name of the cluster plays no part."""
        private, public = qualification.new_key()
        return {"publicKey": public, "privateKey": private}
