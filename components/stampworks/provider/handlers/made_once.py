"""What a cluster needs for as long as it exists."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from stampworks.provider.handler import Call, Handler


class MadeOnce(Handler):
    """Made once, kept in the stack's state and nowhere else, and never changed."""

    @staticmethod
    @abstractmethod
    def make(cluster: str) -> dict[str, Any]:
        """All outputs."""

    async def ensure(self, call: Call) -> dict[str, Any]:
        if kept := await self.read(call):
            return kept
        return await call.thread(self.make, call.inputs["cluster"])

    async def read(self, call: Call) -> dict[str, Any] | None:
        """The state is the only place where it is."""
        kept = {name: call.old_outputs[name] for name in self.outputs if name in call.old_outputs}
        return kept if kept.keys() == self.outputs.keys() else None

    async def delete(self, call: Call) -> None:
        pass
