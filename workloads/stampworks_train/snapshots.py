"""Snapshots of a session: after each step the state of a rank is copied into memory of its node, and of a neighbour.

A restarted rank reads there how far all ranks had come.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .keeper import SLOTS
from .memory import Memory
from .node import at_home, kept_at, running
from .part import place
from .snapshot import Part, Piece, overlaps, pieces_of, read, sources_of, write
from .wire import LINE_MAX

WAIT_S = 120.0
GONE = "the process that keeps snapshots of this node is gone: start the run again"


@dataclass(frozen=True)
class Newest:
    """The newest step whose parts all exist, and their writers."""

    step: int
    cut: int
    parts: int
    world: int
    homes: dict[int, tuple[str, int]]
    """The keeper that has a part; parts below 0 are the values of a rank."""


class Snapshots:
    """Snapshots of all ranks. All ranks call every method."""

    def __init__(self, run: str, group: dist.ProcessGroup) -> None:
        self._group, self.rank, self.world = group, dist.get_rank(), dist.get_world_size()
        node = f"{socket.gethostname()} {os.getppid()}"  # a launcher starts the ranks of one node
        found = self._each((node, socket.gethostname()))
        nodes = list(dict.fromkeys(name for name, _ in found))
        self._node, self._nodes = nodes.index(node), [nodes.index(name) for name, _ in found]
        self._leads = self._nodes.index(self._node) == self.rank
        several = len({host for _, host in found}) > 1
        self._key = hashlib.sha256(f"{run} {os.getppid()}".encode()).hexdigest()[:16]
        self._keepers = self._met(several)
        self._door = Door(self._keepers[self._node])
        self._slots: dict[int, Memory] = {}
        self._waiting: list[int] = []
        self._pieces: list[Piece] = []
        self._begun = False
        self.problem: str | None = None
        self.newest = self._find()

    def _begin(self, parts: Sequence[Part]) -> None:
        """Let the current ranks write; steps of others after the newest one no longer count."""
        mine = _cut(parts)
        cuts = self._each(mine)
        distinct = list(dict.fromkeys(cuts))
        self._shard = distinct.index(mine)
        same_node = [rank for rank, node in enumerate(self._nodes) if node == self._node and cuts[rank] == mine]
        self._keeps = same_node[0] == self.rank
        homes = {node for rank, node in enumerate(self._nodes) if cuts[rank] == mine}
        next_node = (self._node + 1) % len(self._keepers)
        other = self._keepers[next_node] if next_node != self._node else None
        self._neighbour = [other["address"], other["port"]] if other else None
        self._copies = self._neighbour if len(homes) == 1 else None
        if self._leads:
            after = self.newest.step if self.newest else 0
            begin = {"begin": self.generation, "parts": len(distinct), "world": self.world, "after": after}
            self._door.ask(begin)
        dist.barrier(self._group)

    def take(self, parts: Sequence[Part], newest: Newest) -> bytes:
        """Read the state into these tensors; the values of this rank, or of the first one for a new rank."""
        pieces, _ = pieces_of(parts)
        needed = list(range(newest.parts))
        if newest.parts > 1:
            tables = {shard: self._want(newest, shard, content=False)["pieces"] for shard in needed}
            needed = [
                shard
                for shard, table in tables.items()
                if any(piece[0] == own[0] and overlaps(piece, own) for piece in table for own in pieces)
            ]
        brought = {shard: self._want(newest, shard) for shard in needed}
        tensors = {shard: (told["pieces"], Memory(Path(told["path"]), 0).tensor) for shard, told in brought.items()}
        read(pieces, parts, sources_of(tensors))
        values = self._want(newest, -1 - (self.rank if self.rank < newest.world else 0))
        return Path(values["path"]).read_bytes()

    def keep(self, step: int, parts: Sequence[Part], values: bytes) -> None:
        """Copy the state of this step into memory; the second copy is under way when this returns."""
        if not self._begun:
            self._begin(parts)
            self._begun = True
        self.wait()
        if self._keeps:
            self._keep_tensors(step, parts)
        path = kept_at(self._key) / f"own-{self.generation}-values-{self.rank}-{step % SLOTS}"
        self._door.say({"writing": [-1 - self.rank, step]})
        path.write_bytes(values)
        self._written(-1 - self.rank, step, path, self._neighbour)

    def wait(self) -> None:
        """Wait until the second copies of the last step are safe."""
        while self._waiting:
            self._waiting.pop()
            self.problem = self._door.hear().get("problem") or self.problem

    def end(self) -> None:
        """End the run: no snapshot is needed any more."""
        self.wait()
        dist.barrier(self._group)
        if self._leads:
            self._door.say({"end": True})

    def _keep_tensors(self, step: int, parts: Sequence[Part]) -> None:
        pieces, size = pieces_of(parts)
        slot = self._slots.get(step % SLOTS)
        if slot is None or slot.tensor.numel() < size:
            path = kept_at(self._key) / f"own-{self.generation}-{self.rank}-{step % SLOTS}"
            slot = self._slots[step % SLOTS] = Memory(path, max(size, 1), any(here.is_cuda for _, _, here in parts))
        self._door.say({"writing": [self._shard, step]})
        write(pieces, parts, slot.tensor)
        if any(here.is_cuda for _, _, here in parts):
            torch.cuda.current_stream().synchronize()
        new = {} if pieces == self._pieces else {"pieces": pieces}
        self._pieces = pieces
        self._written(self._shard, step, slot.path, self._copies, **new)

    def _written(self, shard: int, step: int, path: Path, to: list[Any] | None, **more: Any) -> None:
        self._door.say({"written": [shard, step], "path": str(path), "to": to, **more})
        self._waiting.append(step)

    def _want(self, newest: Newest, shard: int, content: bool = True) -> dict[str, Any]:
        question = {"want": [shard, newest.step, newest.cut], "home": newest.homes[shard], "content": content}
        return self._door.ask(question)

    # -- who is here, and what they have

    def _met(self, several: bool) -> list[dict[str, Any]]:
        """Start the keeper of each node if it has none; all share the first node's secret."""
        mine = running(self._key) if self._leads else None
        found = [each for each in self._each((self._leads, mine)) if each[0]]
        secret = next((keeper["secret"] for _, keeper in found if keeper), "") or self._each(secrets.token_hex(16))[0]
        if self._leads and (mine is None or mine["secret"] != secret):
            mine = at_home(self._key, _address() if several else "127.0.0.1", secret)
        keepers = self._each((self._leads, mine))
        return [keeper for leads, keeper in keepers if leads]

    def _find(self) -> Newest | None:
        told = self._door.ask({"tell": True}) if self._leads else None
        nodes = [each for each in self._each(told) if each]
        self.generation = 1 + max(each["generation"] for each in nodes)
        cuts = {int(number): cut for each in nodes for number, cut in each["cuts"].items()}
        homes: dict[tuple[int, int], dict[int, tuple[str, int]]] = {}
        for keeper, each in zip(self._keepers, nodes, strict=True):
            for shard, step, cut in each["held"]:
                homes.setdefault((step, cut), {})[shard] = (keeper["address"], keeper["port"])
        for (step, cut), those in sorted(homes.items(), reverse=True):
            parts, world = cuts.get(cut, (0, 0))
            if parts and all(shard in those for shard in (*range(parts), *range(-world, 0))):
                return Newest(step, cut, parts, world, those)
        return None

    def _each(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value, group=self._group)
        return found


class Door:
    """The connection of a rank to the keeper of its node."""

    def __init__(self, keeper: dict[str, Any]) -> None:
        self._socket = socket.create_connection((keeper["address"], keeper["port"]), WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise a small message waits 40 ms
        self._file = self._socket.makefile("rb")
        self.say({"secret": keeper["secret"]})

    def say(self, message: dict[str, Any]) -> None:
        """Send a line of JSON. Raise ConnectionError when the node's process is gone."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError:
            raise ConnectionError(GONE) from None

    def hear(self) -> dict[str, Any]:
        """Receive a line of JSON. Raise ConnectionError when the node's process is gone."""
        try:
            line = self._file.readline(LINE_MAX)
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise ConnectionError(GONE)
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a message. Raise ConnectionError with the problem that it names."""
        self.say(message)
        answer = self.hear()
        if "problem" in answer:
            raise ConnectionError(f"a snapshot cannot be had: {answer['problem']}")
        return answer


def _cut(parts: Iterable[Part]) -> str:
    """Ranks of the same group hold the same data: offsets and sizes of their parts."""
    table = [(name, place(whole), list(here.shape)) for name, whole, here in parts]
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()


def _address() -> str:
    """Return the address at which other nodes reach this one: its address towards the first node."""
    if own := os.environ.get("POD_IP", ""):
        return own
    master, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "1")
    for host in (master, socket.gethostname()):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, int(port)))
                address: str = probe.getsockname()[0]
        except OSError:
            continue
        if not address.startswith("127."):
            return address
    raise RuntimeError(
        f"{socket.gethostname()}: other nodes cannot reach this one, whose own name and MASTER_ADDR={master!r} lead to "
        "a loopback address: set POD_IP to its address, or snapshots=False"
    )
