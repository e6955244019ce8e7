"""JSON lines between agents, some followed by bytes. A connection without the run's secret is closed."""

from __future__ import annotations

import asyncio
import hmac
import json
import mmap
from typing import Any

LINE_MAX = 2**26
"""Bytes of a message: the pieces of a large model are many."""
BLOCK = 2**22
WANTS_CHECKPOINT, WANTS_STOP = 1, 2
"""Requests to the first rank, as bits: it shares them after a step, so that all ranks act after the same step."""


class Wire:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, message: dict[str, Any]) -> None:
        """Queue a line of JSON; it is sent when the loop runs."""
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> dict[str, Any] | None:
        """Return the next message, or None if the other side has closed."""
        try:
            line = await self.reader.readline()
            found = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    async def send(self, content: memoryview) -> None:
        """A piece at a time, so that other messages of this process are not kept waiting."""
        for start in range(0, len(content), BLOCK):
            self.writer.write(bytes(content[start : start + BLOCK]))  # the memory may be unmapped before all is sent
            await self.writer.drain()

    async def take(self, into: mmap.mmap, size: int) -> None:
        """Receive bytes into a mapped file. Raise ConnectionError if the other side ends first."""
        at = 0
        while at < size:
            block = await self.reader.read(min(BLOCK, size - at))
            if not block:
                raise ConnectionError(f"the other side is gone after {at} of {size} bytes")
            into[at : at + len(block)] = block
            at += len(block)

    def close(self) -> None:
        """Close the connection without waiting for queued bytes."""
        self.writer.close()


async def connect(address: str, port: int, secret: str, wait_s: float) -> Wire:
    """Connect and send the run's secret. Raise TimeoutError after `wait_s` seconds."""
    async with asyncio.timeout(wait_s):
        wire = Wire(*await asyncio.open_connection(address, port, limit=LINE_MAX))
    wire.say({"secret": secret})
    return wire


async def admitted(wire: Wire, secret: str, wait_s: float) -> bool:
    """Return whether the other side belongs to this run."""
    try:
        async with asyncio.timeout(wait_s):
            first = await wire.hear()
    except TimeoutError:
        first = None
    if first and hmac.compare_digest(str(first.get("secret")).encode(), secret.encode()):
        return True
    wire.close()
    return False
