"""The process of a node that keeps snapshots for the ranks of a session, and outlives them.

    python3 -m stampworks_train.node        a line of JSON on standard input names the run

Ranks start it (`at_home`) and talk to it over TCP, as the keepers of other nodes do. It ends with the launcher of the
ranks, when a finished session says so, or when no rank has been connected for IDLE_S.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .keeper import ALIVE, MEMORY, SLOTS, Keeper, Kept, clear_away
from .wire import Wire

IDLE_S = 600.0
START_S = 60.0
LOOK_S = 1.0
WHERE, KEPT = "where.json", "kept"


@dataclass
class NodeKeeper(Keeper):
    """A keeper to which ranks report their snapshots, and which knows the shards of each generation."""

    cuts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of parts of the state and of ranks, by generation."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    last_used: float = field(default_factory=time.monotonic)
    users: int = 0
    _pieces: dict[int, list[Any]] = field(default_factory=dict)
    """The last pieces that each shard's rank reported."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.users += 1
        try:
            await super()._serve(reader, writer)
        finally:
            self.users -= 1
            self.last_used = time.monotonic()

    async def _answer(self, wire: Wire, message: dict[str, Any]) -> None:
        if "begin" in message:
            self._begin(message)
            wire.say({"begun": self.generation})
        elif "tell" in message:
            cuts = {str(number): cut for number, cut in self.cuts.items()}
            wire.say({"held": self.told(), "cuts": cuts, "generation": self.generation})
        elif "writing" in message:
            self.writing(*message["writing"])
        elif "written" in message:
            wire.say(await self._taken(message))
        elif "want" in message:
            wire.say(await self._brought(message))
        elif "end" in message:
            self.over.set()
        else:
            await super()._answer(wire, message)

    def _begin(self, message: dict[str, Any]) -> None:
        self.hang_up()
        self.forget_after(int(message["after"]))
        self.generation = int(message["begin"])
        self.cuts[self.generation] = (int(message["parts"]), int(message["world"]))

    async def _taken(self, message: dict[str, Any]) -> dict[str, Any]:
        """A snapshot that a rank has written, and its second copy on another node."""
        shard, step = message["written"]
        pieces = self._pieces[shard] = message.get("pieces", self._pieces.get(shard, []))
        self.written(shard, step, Kept(Path(message["path"]), pieces, self.generation))
        if step % SLOTS == 0:
            self.tidy(self.generation)
        if to := message.get("to"):
            try:
                await self.send((to[0], to[1]), shard, step)
            except (OSError, TimeoutError) as error:
                return {"kept": step, "problem": f"the second copy of step {step} is not kept: {error}"}
        return {"kept": step}

    async def _brought(self, message: dict[str, Any]) -> dict[str, Any]:
        """A part of a snapshot, from here or from the node that has it."""
        shard, step, cut = message["want"]
        kept = self.whole(shard, step, cut)
        if kept is None:
            try:
                home = message["home"]
                kept = await self.fetch((home[0], home[1]), shard, step, cut, bool(message["content"]))
            except (OSError, TimeoutError, MemoryError) as error:
                return {"problem": str(error)}
        return {"path": str(kept.path), "pieces": kept.pieces}

    async def watch(self, launcher: int) -> None:
        """Wait until the launcher ends, a session asks for the end, or ranks stay away too long."""
        while not self.over.is_set() and _lives(launcher):
            if not self.users and time.monotonic() - self.last_used > IDLE_S:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self.over.wait()


def at_home(key: str, address: str, secret: str) -> dict[str, Any]:
    """Start the keeper of this node; return its address."""
    folder = _place_of(key)
    clear_away(_place_of("").name)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    expect_own(folder)
    (folder / WHERE).unlink(missing_ok=True)
    shutil.rmtree(kept_at(key), ignore_errors=True)
    kept_at(key).mkdir()
    told = {"folder": str(folder), "address": address, "secret": secret, "launcher": os.getppid()}
    path = os.pathsep.join(filter(None, (str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", ""))))
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.node"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # the end of the ranks' process group must not end it
    )
    assert process.stdin is not None  # noqa: S101 (a pipe was asked for)
    process.stdin.write(json.dumps(told).encode() + b"\n")
    process.stdin.close()
    deadline = time.monotonic() + START_S
    while (found := running(key)) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{folder}: the process that keeps snapshots does not start (exit {process.returncode})")
        time.sleep(0.02)
    return found


def running(key: str) -> dict[str, Any] | None:
    """Return the address of this node's keeper, or None if none runs."""
    folder = _place_of(key)
    expect_own(folder)
    try:
        found: dict[str, Any] = json.loads((folder / WHERE).read_text())
        with (folder / ALIVE).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return found
    except (OSError, ValueError):
        return None
    return None


def expect_own(folder: Path) -> None:
    """Refuse a folder of another user: its content would be read as snapshots."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user, and snapshots of this run are to go there: remove it")


def _place_of(key: str) -> Path:
    return MEMORY / f"stampworks-session-{os.getuid()}-{key}"


def kept_at(key: str) -> Path:
    """The folder of the snapshots."""
    return _place_of(key) / KEPT


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def main() -> None:
    """Keep snapshots until the ranks have been away for too long. Only one such process holds the lock."""
    told = json.loads(sys.stdin.readline())
    folder = Path(told["folder"])
    with (folder / ALIVE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        keeper = NodeKeeper(folder / KEPT, told["address"], told["secret"])
        await keeper.open()
        where = {**told, "port": keeper.port, "process": os.getpid()}
        draft = folder / f"{WHERE}.draft"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(where, file)
        draft.replace(folder / WHERE)
        try:
            await keeper.watch(told["launcher"])
        finally:
            keeper.close()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
