"""python -m tools.language_host EXECUTOR [FLAGS] ENGINE: serve until the engine has finished or is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc

from .children import Children
from .protocol import add_LanguageRuntimeServicer_to_server
from .servicer import Host

MESSAGE_BYTES_MAX = 400 << 20
"""Largest message that the engine and the SDK allow."""


async def serve(executor: Path, engine: str) -> None:
    """Serve until the engine ends this process, or its parent is gone."""
    ours = os.getppid()
    children = Children()
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)])
    add_LanguageRuntimeServicer_to_server(Host(engine, executor, children), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    print(port, flush=True)  # the first line, for which the engine waits
    # A killed parent sends nothing: the change of the parent process shows it.
    while not over.is_set() and os.getppid() == ours:
        await _wait(over, seconds=0.5)
    await children.end()
    await server.stop(grace=None)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


if __name__ == "__main__":
    asyncio.run(serve(executor=Path(sys.argv[1]), engine=sys.argv[-1]))
