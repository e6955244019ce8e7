"""Progress of the plugin for the engine: one line beside a resource, replaced by the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

from stampworks.provider.handler import Progress
from stampworks.text.printable import printable_lines
from stampworks.wire.protocol import engine_pb2, engine_pb2_grpc

_BETWEEN_LINES_S = 2.0  # without a terminal each line is printed


class EngineLog:
    """Log of the engine, if it listens to plugins."""

    def __init__(self, address: str) -> None:
        # Any: the generated types only know the stub of a blocking channel
        self._stub: Any = engine_pb2_grpc.EngineStub(grpc.aio.insecure_channel(address)) if address else None

    async def log(self, urn: str, line: str, lasting: bool = False) -> None:
        """Show a line at the resource. A lasting line appears among the messages at the end."""
        if self._stub is None:
            return
        with suppress(grpc.aio.AioRpcError):  # a line that cannot be shown is no reason to fail
            text, info = printable_lines(line), engine_pb2.LogSeverity.INFO
            await self._stub.Log(engine_pb2.LogRequest(severity=info, message=text, urn=urn, ephemeral=not lasting))

    @asynccontextmanager
    async def progress(self, urn: str, mask: Callable[[str], str]) -> AsyncIterator[Progress]:
        """Yield a function that shows a line. Any thread may call it, and only new lines are sent."""
        loop = asyncio.get_running_loop()
        latest = shown = ""
        came = asyncio.Event()

        def put(line: str) -> None:
            nonlocal latest
            latest = line
            came.set()

        def say(line: str) -> None:
            loop.call_soon_threadsafe(put, line)

        async def show() -> None:
            nonlocal shown
            if latest != shown:
                shown = latest
                await self.log(urn, mask(shown))

        async def keep_showing() -> None:
            while await came.wait():
                came.clear()
                await show()
                await asyncio.sleep(_BETWEEN_LINES_S)

        sender = asyncio.create_task(keep_showing())
        try:
            yield say
        finally:
            sender.cancel()
            await show()
