"""Keys of a cluster that stay as long as it exists."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from stampworks.provider.handler import Call, Handler


class MadeOnce(Handler):
    """Outputs that are created once, kept only in the stack's state, and never changed."""

    @staticmethod
    @abstractmethod
    def make(cluster: str) -> dict[str, Any]:
        """Make all outputs."""

    async def ensure(self, call: Call) -> dict[str, Any]:
        """Keep the keys of an earlier `up`, or make new ones."""
        if kept := await self.read(call):
            return kept
        return await call.thread(self.make, call.inputs["cluster"])

    async def read(self, call: Call) -> dict[str, Any] | None:
        """Return the outputs from the state, which is their only place."""
        kept = {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}
        return kept if kept.keys() == self.outputs.keys() else None

    async def delete(self, call: Call) -> None:
        """Do nothing: the keys exist only in the state."""
