"""A relay from this machine's loopback into a room: it forwards connections of a socket to an address in the room.

A bare interpreter starts this program by path in the room's network, so it imports only the standard library. Its
arguments are the number of a socket that listens outside, and the address and port inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

CHUNK = 1 << 16


async def main() -> None:
    """Forward connections of the socket until this process is ended. Arguments: socket, address, port."""
    listener = socket.socket(fileno=int(sys.argv[1]))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(sys.argv[2], int(sys.argv[3]))
        except OSError:  # nothing listens in the room: close the caller's connection
            writer.close()
            return
        try:
            await asyncio.gather(hand_on(reader, inner_writer), hand_on(inner_reader, writer))
        finally:
            inner_writer.close()
            writer.close()

    async with await asyncio.start_server(answer, sock=listener) as server:
        await server.serve_forever()


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward a direction until its end, and pass the end on."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        return
    writer.close()


if __name__ == "__main__":
    asyncio.run(main())
