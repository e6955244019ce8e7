"""The agent of a node: it starts ranks, keeps their snapshots in memory, and carries messages. It needs no torch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import secrets
import signal
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from stampworks_train.keeper import SLOTS, Keeper, Kept, place_in_memory
from stampworks_train.wire import connect
from validation.ranks import Ranks

from .coordinator import BEAT_S, LOST, Coordinator
from .journal import Journal
from .settings import Settings
from .shape import Seat

STOPS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)

AGAIN_S = 0.1
FROM_RANK = ("store", "ready", "step", "checkpoint", "finished", "stopped", "fatal", "broke", "notice")


@dataclass
class Child:
    """A rank that runs."""

    seat: Seat
    process: Any
    pipe: Connection
    pieces: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    written: int = 0
    """Snapshots."""


@dataclass
class Form:
    """Generation of this node."""

    number: int
    step: int
    cut: int
    """The generation that the snapshots are of."""
    homes: dict[str, list[Any]]
    buddies: dict[str, list[Any]]


class Agent:
    """The agent of this node, and of the first node also the coordinator."""

    def __init__(self, settings: Settings, ranks: Ranks) -> None:
        self.settings, self.ranks = settings, ranks
        node = settings.cluster.named(ranks.node)
        own = os.environ.get("POD_IP", "")
        self.address = own or (node.address if node else "127.0.0.1")
        rails = node.rails if node and settings.copies == "rail" else ()
        self.keeps_at = rails[0] if rails else self.address
        """Address at which snapshots arrive."""
        self.children: dict[int, Child] = {}
        self.form = Form(0, 0, 0, {}, {})
        self.stop_asked = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> int:
        """Run until the training ends, here or at the coordinator."""
        _prepare(self.settings)
        self.context = _fork_server()
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self._ask_to_stop)
        first = self.ranks.rank == 0
        secret = secrets.token_hex(16) if first else ""
        coordinating: asyncio.Task[int] | None = None
        if first:
            journal = Journal(self.settings)
            coordinator = Coordinator(self.settings, journal, secret, self.ranks.world)
            port = await coordinator.open(self.address)
            _publish(self._meeting, {"address": self.address, "port": port, "secret": secret})
            journal.write("start", attempt=journal.attempt, **_started(self.settings, self.ranks))
            coordinating = asyncio.create_task(coordinator.run())
        else:
            told = await self._told_where()
            port, secret = int(told["port"]), str(told["secret"])
        self.keeper = Keeper(place_in_memory("training"), self.keeps_at, secret)
        try:
            await self.keeper.open()
            devices = await asyncio.to_thread(self._devices)  # the process that forks has loaded torch from now on
            count = self.settings.ranks or max(1, devices)
            self.devices = devices
            address = self.address if first else str(told["address"])
            try:
                self.wire = await connect(address, port, secret, self.settings.patience.start)
            except OSError as error:  # a host that cannot be reached is no ConnectionError
                return self._lost(error)
            keeper = [self.keeps_at, self.keeper.port]
            self.wire.say({"node": self.ranks.node, "place": self.ranks.rank, "ranks": count, "keeper": keeper})
            if self.stop_asked:
                self.wire.say({"what": "stop asked"})
            code = await self._obey()
            self.wire.close()
        finally:
            await self._end_children()
            self.keeper.close()
        if not coordinating:
            return code
        self._meeting.unlink(missing_ok=True)  # it contains the run's secret, and no more ranks will join
        return await coordinating

    @property
    def _meeting(self) -> Path:
        start = self.ranks.start.split()[1]
        attempt = os.environ.get("SLURM_RESTART_COUNT", "0")
        return Path(self.settings.folder) / f"meeting-{start}-{attempt}.json"

    async def _told_where(self) -> dict[str, Any]:
        """Return the address of the coordinator, which the first agent writes into the run's folder."""
        deadline = time.monotonic() + self.settings.patience.start
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                found: dict[str, Any] = json.loads(self._meeting.read_text())
                # make sure that it is not a file of an earlier run
                probe = await connect(str(found["address"]), int(found["port"]), "", 1.0)
                probe.close()
                return found
            await asyncio.sleep(AGAIN_S)
        where = f"{self._meeting}: the first node has not written within {self.settings.patience.start:g} s"
        raise TimeoutError(f"{where}: is the folder the same directory on all nodes?")

    def _devices(self) -> int:
        """Return the accelerators of this node, counted in a separate process: a fork cannot use a device that its
        parent has initialized."""
        ours, its = self.context.Pipe()
        process = self.context.Process(target=_tell_devices, args=(its,), daemon=True)
        process.start()
        its.close()
        with contextlib.suppress(EOFError):
            return int(ours.recv())
        return 0

    def _ask_to_stop(self) -> None:
        self.stop_asked = True
        if hasattr(self, "wire"):
            self.wire.say({"what": "stop asked"})

    async def _obey(self) -> int:
        """Obey the coordinator until it announces the end of the run."""
        beat = asyncio.create_task(self._beats())
        try:
            while True:
                async with asyncio.timeout(2 * self.settings.patience.node):
                    message = await self.wire.hear()
                if message is None:
                    raise ConnectionError("the coordinator is gone")
                if message["do"] == "form":
                    self._start(message)
                elif message["do"] == "tell":
                    self._tell(message)
                elif message["do"] == "stop":
                    await self._end_children()
                    self.wire.say({"what": "ended", "held": self.keeper.told()})
                elif message["do"] == "end":
                    return int(message["code"])
        except (TimeoutError, ConnectionError) as error:
            return self._lost(error)
        finally:
            beat.cancel()

    def _lost(self, error: OSError) -> int:
        print(f"training: {self.ranks.node}: the coordinator does not answer: {error}", file=sys.stderr)
        return LOST

    async def _beats(self) -> None:
        while True:
            self.wire.say({"what": "alive"})
            await asyncio.sleep(BEAT_S)

    # -- ranks

    def _start(self, message: dict[str, Any]) -> None:
        number, step = int(message["generation"]), int(message["step"])
        self.form = Form(number, step, int(message["cut"]), message["homes"], message["buddies"])
        self.keeper.generation = number
        self.keeper.forget_after(step)
        seats = [Seat(**seat) for seat in message["seats"]]
        firsts = {seat.shard: seat.rank for seat in reversed(seats)}
        for seat in seats:
            ours, its = self.context.Pipe()
            place = {
                "settings": self.settings,
                "generation": number,
                "seat": seat,
                "address": self.address,
                "world": message["world"],
                "on_node": len(seats),
                "memory": str(self.keeper.folder),
                "step": step,
                "shards": tuple(message["shards"]),
                "same": message["same"],
                "accelerators": self.devices,
                "keeps": firsts[seat.shard] == seat.rank,
            }
            process = self.context.Process(target=_be_rank, args=(place, its), daemon=True)
            process.start()
            its.close()
            child = self.children[seat.rank] = Child(seat, process, ours)
            asyncio.get_running_loop().add_reader(ours.fileno(), self._hear, child)

    def _hear(self, child: Child) -> None:
        """Handle the message of a rank, or its end."""
        try:
            while child.pipe.poll():
                self._heard(child, child.pipe.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(child.pipe.fileno())
            child.process.join(1.0)
            code = child.process.exitcode
            text = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with {code}"
            self._pass_on(child, {"what": "gone", "text": text})

    def _heard(self, child: Child, message: dict[str, Any]) -> None:
        what, shard = message["what"], child.seat.shard
        if what in FROM_RANK:
            self._pass_on(child, message)
        elif what == "pieces":
            child.pieces, child.paths = message["pieces"], message["paths"]
        elif what == "writing":
            self.keeper.writing(shard, message["step"])
        elif what == "written":
            step = message["step"]
            path = Path(child.paths[step % len(child.paths)])
            self.keeper.written(shard, step, Kept(path, child.pieces, self.form.number))
            self._begin(child, self._second_copy(child, step))
            child.written += 1
            if child.written == SLOTS:
                self.keeper.tidy(self.form.number)
        elif what == "want":
            self._begin(child, self._brought(child, message["shards"], bool(message["pieces"])))

    def _pass_on(self, child: Child, message: dict[str, Any]) -> None:
        self.wire.say({"generation": self.form.number, "rank": child.seat.rank, **message})

    async def _second_copy(self, child: Child, step: int) -> None:
        """Send a snapshot to the node that keeps it. The coordinator notices a node that does not take it."""
        buddy = self.form.buddies.get(str(child.seat.rank))
        if buddy:
            await self.keeper.send((str(buddy[0]), int(buddy[1])), child.seat.shard, step)
        child.pipe.send({"kept": step})

    async def _brought(self, child: Child, shards: list[int], pieces_only: bool) -> None:
        """Bring a rank the parts of the state from which it continues, from this node or another."""
        found: dict[int, Any] = {}
        for shard in shards:
            step, cut = self.form.step, self.form.cut
            kept = self.keeper.whole(shard, step, cut)
            if kept is None:
                address, port = self.form.homes[str(shard)]
                kept = await self.keeper.fetch((str(address), int(port)), shard, step, cut, not pieces_only)
            found[shard] = kept.pieces if pieces_only else (str(kept.path), kept.pieces)
        child.pipe.send({"answer": {"pieces" if pieces_only else "have": found}})

    def _begin(self, child: Child, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._carried_out(child, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carried_out(self, child: Child, work: Coroutine[Any, Any, None]) -> None:
        """Carry out a rank's work, unless the rank ends first. The coordinator finds out whether a node is gone."""
        try:
            await work
        except (OSError, TimeoutError, KeyError, MemoryError) as error:
            self._pass_on(child, {"what": "broke", "text": f"its snapshots cannot be passed on: {error}"})

    def _tell(self, message: dict[str, Any]) -> None:
        told = {key: value for key, value in message.items() if key in ("wanted", "answer")}
        for rank, child in self.children.items():
            if message.get("rank", rank) == rank:
                with contextlib.suppress(OSError):
                    child.pipe.send(told)

    async def _end_children(self) -> None:
        """End the ranks in any state, and read their last messages."""
        for task in list(self._tasks):
            task.cancel()
        for child in self.children.values():
            child.process.kill()
        for child in self.children.values():
            asyncio.get_running_loop().remove_reader(child.pipe.fileno())
            with contextlib.suppress(EOFError, OSError):
                while child.pipe.poll():
                    self._heard(child, child.pipe.recv())
            await asyncio.to_thread(child.process.join)  # a process with much pinned memory needs time to end
            child.pipe.close()
        for task in list(self._tasks):
            task.cancel()
        self.children.clear()
        self.keeper.hang_up()


def _fork_server() -> ForkServerContext:
    """Return the server that forks ranks. Slurm signals all processes of a step, and only the agent may react."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)  # processes that are started from here on inherit this
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.rank"])
    forkserver.ensure_running()
    return context


def _prepare(settings: Settings) -> None:
    """The environment that ranks inherit."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if settings.cluster.rails:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", settings.cluster.rails[0])
    elif not settings.cluster.nodes:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _publish(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    draft.replace(path)


def _started(settings: Settings, ranks: Ranks) -> dict[str, Any]:
    submitted = os.environ.get("STAMPWORKS_SUBMITTED", "")  # time of submission or requeue, in seconds of Unix time
    return {
        "name": settings.name,
        "job": os.environ.get("SLURM_JOB_ID") or os.environ.get("JOB_ID", ""),
        "nodes": ranks.world,
        **({"submitted": int(submitted)} if submitted.isdecimal() else {}),
        "settings": settings.told(),
    }


def _tell_devices(pipe: Connection) -> None:
    from .rank import devices

    pipe.send(devices())


def _be_rank(place: dict[str, Any], pipe: Connection) -> None:
    from .rank import Place, run

    run(Place(**place), pipe)
