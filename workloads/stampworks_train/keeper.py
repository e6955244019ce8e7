"""The snapshots in a node's memory: those of its own ranks, and second copies of another node's.

They are files in shared memory, which outlive the ranks that write them, but not the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import mmap
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .wire import LINE_MAX, Wire, admitted, connect

WAIT_S = 10.0
MEMORY = Path("/dev/shm")  # noqa: S108 (memory of this node that outlives a process)
LOCKS: list[Any] = []
"""Held as long as this process lives."""
ALIVE = "alive"
"""A file that the agent holds a lock on."""
SLOTS = 2
"""Number of kept snapshots: one is complete while the next is written and sent."""


@dataclass
class Kept:
    """A part of the state after one step."""

    path: Path
    pieces: list[Any]
    cut: int
    """The generation that wrote it: all its parts together are the state."""


@dataclass
class Keeper:
    """The memory of a node for snapshots, and the server that accepts copies."""

    folder: Path
    address: str
    secret: str
    held: dict[tuple[int, int], Kept] = field(default_factory=dict)
    """Complete snapshots, by shard and step."""
    port: int = 0
    generation: int = 0
    """The current generation: snapshots of others are refused."""
    _ways: dict[tuple[str, int], Wire] = field(default_factory=dict)
    _turns: dict[tuple[Any, ...], asyncio.Lock] = field(default_factory=dict)
    _fetched: dict[tuple[int, int, bool], Kept] = field(default_factory=dict)

    async def open(self) -> None:
        """Listen on a free port of the address."""
        self.server = await asyncio.start_server(self._serve, self.address, 0, limit=LINE_MAX)
        self.port = self.server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Stop listening and free the memory."""
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- what its own ranks write

    def writing(self, shard: int, step: int) -> None:
        """Forget the piece that is overwritten now."""
        for known in [key for key in self.held if key[0] == shard and key[1] % SLOTS == step % SLOTS]:
            del self.held[known]

    def written(self, shard: int, step: int, kept: Kept) -> None:
        """Keep a snapshot, and remove those older than the last step: no rank ever goes back further."""
        self.held[shard, step] = kept
        for key in [key for key in self.held if key[1] < step - 1]:
            del self.held[key]

    def told(self) -> list[tuple[int, int, int]]:
        """Return shard, step and sharding of all complete snapshots."""
        return [(shard, step, kept.cut) for (shard, step), kept in self.held.items()]

    def hang_up(self) -> None:
        """Break off all transfers to other nodes."""
        for wire in self._ways.values():
            wire.close()
        self._ways.clear()

    def forget_after(self, step: int) -> None:
        """Remove snapshots of later steps: they do not count in a generation that begins here."""
        self._fetched.clear()
        for key in [key for key in self.held if key[1] > step]:
            del self.held[key]

    def tidy(self, generation: int) -> None:
        """Remove snapshots of earlier generations that no rank needs any more."""
        used = {self.folder / ALIVE, *(kept.path for kept in self.held.values())}
        for path in self.folder.iterdir():
            if path not in used and not path.name.startswith((f"own-{generation}-", f"copy-{generation}-")):
                path.unlink(missing_ok=True)

    # -- between nodes

    async def send(self, to: tuple[str, int], shard: int, step: int) -> None:
        """A second copy, for another node to keep."""
        async with self._turns.setdefault(to, asyncio.Lock()):
            await self._send(to, shard, step)

    async def _send(self, to: tuple[str, int], shard: int, step: int) -> None:
        kept = self.held[shard, step]
        wire = self._ways.get(to)
        if wire is None:
            wire = self._ways[to] = await connect(*to, self.secret, WAIT_S)
        with _mapped(kept.path) as content:
            wire.say({"keep": [shard, step], "bytes": len(content), "pieces": kept.pieces, "cut": kept.cut})
            with memoryview(content) as seen:
                await wire.send(seen)
        answer = await wire.hear()
        if not answer or answer.get("kept") != [shard, step]:
            self._ways.pop(to).close()
            raise ConnectionError(f"{to[0]} keeps no copy of part {shard} of step {step}: is its /dev/shm full?")

    def whole(self, shard: int, step: int, cut: int) -> Kept | None:
        """Return the part that is here, as that generation wrote it."""
        kept = self.held.get((shard, step))
        return kept if kept and kept.cut == cut else None

    async def fetch(self, of: tuple[str, int], shard: int, step: int, cut: int, whole: bool) -> Kept:
        """Fetch the pieces of another node, or the complete part if it is `whole`; once for all ranks of this node."""
        async with self._turns.setdefault((shard, step, whole), asyncio.Lock()):
            if (shard, step, whole) not in self._fetched:
                self._fetched[shard, step, whole] = await self._fetch(of, shard, step, cut, whole)
            return self._fetched[shard, step, whole]

    async def _fetch(self, of: tuple[str, int], shard: int, step: int, cut: int, whole: bool) -> Kept:
        wire = await connect(*of, self.secret, WAIT_S)
        try:
            wire.say({"give": [shard, step, cut], "whole": whole})
            answer = await wire.hear()
            if not answer or "pieces" not in answer:
                raise ConnectionError(f"{of[0]} has lost its copy of part {shard} of step {step}")
            path = self.folder / f"fetched-{step}-{shard}"
            if whole:
                await _written(path, wire, int(answer["bytes"]))
            return Kept(path, answer["pieces"], int(answer["cut"]))
        finally:
            wire.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        if not await admitted(wire, self.secret, WAIT_S):
            return
        with contextlib.suppress(OSError, MemoryError, asyncio.CancelledError):
            while message := await wire.hear():
                await self._answer(wire, message)
        wire.close()

    async def _answer(self, wire: Wire, message: dict[str, Any]) -> None:
        if "keep" in message:
            await self._keep(wire, message)
        else:
            await self._give(wire, message)

    async def _keep(self, wire: Wire, message: dict[str, Any]) -> None:
        shard, step = (int(each) for each in message["keep"])
        cut = int(message["cut"])
        if cut != self.generation:
            raise ConnectionError(f"a copy of generation {cut}, and this is {self.generation}")
        self.writing(shard, step)
        path = self.folder / f"copy-{cut}-{shard}-{step % SLOTS}"
        await _written(path, wire, int(message["bytes"]))
        self.written(shard, step, Kept(path, message["pieces"], cut))
        wire.say({"kept": [shard, step]})

    async def _give(self, wire: Wire, message: dict[str, Any]) -> None:
        shard, step, cut = (int(each) for each in message["give"])
        kept = self.whole(shard, step, cut)
        if kept is None:
            wire.say({"lost": [shard, step]})
            return
        with _mapped(kept.path) as content:
            wire.say({"bytes": len(content), "pieces": kept.pieces, "cut": kept.cut})
            if message.get("whole"):
                with memoryview(content) as seen:
                    await wire.send(seen)


def place_in_memory(kind: str) -> Path:
    """Make a folder for this process, and remove those of killed ones."""
    ours = f"stampworks-{kind}-{os.getuid()}-"
    clear_away(ours)
    folder = Path(tempfile.mkdtemp(prefix=ours, dir=MEMORY))
    LOCKS.append((folder / ALIVE).open("w"))
    fcntl.flock(LOCKS[-1], fcntl.LOCK_EX)
    return folder


def clear_away(ours: str) -> None:
    """Remove the folders with this prefix that no process holds."""
    for left in MEMORY.glob(f"{ours}*"):
        with contextlib.suppress(OSError), (left / ALIVE).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


def reserved(file: int, size: int, path: Path) -> None:
    """Allocate the whole file at once: running out of memory during a copy would kill the process."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        free = shutil.disk_usage(path.parent).free
        raise MemoryError(
            f"{path.parent} on {os.uname().nodename}: a snapshot needs {size:,} bytes, and {free:,} are free "
            f"({error.strerror}): make /dev/shm larger, or set snapshots to false"
        ) from None


async def _written(path: Path, wire: Wire, size: int) -> None:
    with path.open("w+b") as file:
        reserved(file.fileno(), size, path)
        with mmap.mmap(file.fileno(), size) as content:
            await wire.take(content, size)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
