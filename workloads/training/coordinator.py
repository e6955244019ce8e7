"""Members of a run, and the step from which it continues after a loss. It runs in the agent of the first node."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from dataclasses import dataclass, field
from typing import Any

from stampworks_train.wire import LINE_MAX, WANTS_CHECKPOINT, WANTS_STOP, Wire, admitted

from .journal import Journal
from .settings import Settings
from .shape import Seat, buddies, misfit, seats

BEAT_S = 0.5
WHO_WAS_FIRST_S = 1.0
"""Seconds to wait after a broken collective: the faulty rank, or its agent, then reports the cause."""
IN_VAIN_MAX = 3
"""Limit of consecutive generations that complete no step."""
FINISHED, FAILED, LOST, STOPPED = 0, 1, 69, 75
"""Exit statuses of an agent. 69 (EX_UNAVAILABLE): other nodes do not answer, and the run must be restarted, because the
coordinator's node is gone or the job no longer has all nodes. 75 (EX_TEMPFAIL): the run left a checkpoint and must be
restarted."""
ENDS = {FINISHED: "finished", FAILED: "failed", LOST: "preempted", STOPPED: "preempted"}
BROKEN = "broken"
FAILURES = {"gone": ("rank", True), "broke": (BROKEN, True), "fatal": ("rank", False)}
"""Messages of a rank or agent about its end: the kind of failure, and whether a restart may help."""


@dataclass(eq=False)
class Member:
    """A node with its agent."""

    wire: Wire
    node: str
    place: int
    """Index among the nodes of the job."""
    ranks: int
    keeper: tuple[str, int]
    heard: float = 0.0
    held: list[list[int]] = field(default_factory=list)
    """Shard, step and cut of the snapshots in its memory."""


@dataclass(frozen=True)
class Failure:
    """Why a generation has ended before the run."""

    kind: str
    text: str
    node: str = ""
    rank: int | None = None
    mends: bool = True
    """Whether starting again may help."""

    @property
    def where(self) -> str:
        """Rank and node in words, at the beginning of a message."""
        rank = "" if self.rank is None else f"rank {self.rank} on "
        return f"{rank}{self.node or 'the run'}:"


@dataclass
class Generation:
    """The members of a run between two losses, with the step from which they started."""

    number: int
    seats: list[Seat]
    members: list[Member]
    step: int
    ready: dict[int, int] = field(default_factory=dict)
    """Process ids of the ranks that have their state."""
    through: dict[int, str] = field(default_factory=dict)
    """Ended ranks, finished or stopped."""
    about: dict[str, Any] = field(default_factory=dict)
    progress: float = 0.0
    """Time of the last progress."""
    steps: int = 0

    def member(self, rank: int) -> Member:
        """Return the node on which a rank sits."""
        return self.members[self.seats[rank].node]


class Coordinator:
    """Form a generation, watch it, and form the next one until the run is complete."""

    def __init__(self, settings: Settings, journal: Journal, secret: str, nodes: int) -> None:
        self.settings, self.journal, self.secret, self.nodes = settings, journal, secret, nodes
        self.members: list[Member] = []
        self.heard: asyncio.Queue[tuple[Member, dict[str, Any] | None]] = asyncio.Queue()
        self.cuts: dict[int, int] = {}
        """Number of parts of the snapshots of a generation."""
        self.worlds: dict[int, int] = {}
        """Number of ranks of each generation: the same number gives the same sharding."""
        self.step = 0
        self.stopping = False
        self.compared = False
        self._meetings: set[asyncio.Task[None]] = set()

    async def open(self, address: str) -> int:
        """Listen on a free port of the address, and return the port."""
        self.server = await asyncio.start_server(self._meet, address, 0, limit=LINE_MAX)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    async def run(self) -> int:
        """The whole run. How it ended is in the journal."""
        self._beat = asyncio.create_task(self._beats())
        code = FAILED
        try:
            await self._gather()
            code = await self._generations()
        except _GaveUpError as error:
            self.journal.write("end", why="failed", step=self.step, text=str(error))
        except _AnewError as error:
            code = LOST
            self.journal.write("end", why="preempted", step=self.step, text=str(error))
        except Exception as error:  # the run cannot continue without a coordinator
            text = f"the coordinator broke: {type(error).__name__}: {error}"
            self.journal.write("end", why="failed", step=self.step, text=text)
        for member in self.members:
            member.wire.say({"do": "end", "code": code})
        self._beat.cancel()
        await asyncio.to_thread(self.journal.close, ENDS[code])
        if self._meetings:
            await asyncio.wait(self._meetings, timeout=self.settings.patience.node)  # wait until all agents have left
        self.server.close()
        return code

    # -- who is here

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        if await admitted(wire, self.secret, self.settings.patience.node):
            task = asyncio.create_task(self._member(wire))
            self._meetings.add(task)

    async def _member(self, wire: Wire) -> None:
        hello = await wire.hear()
        if not hello:
            return
        keeper = (str(hello["keeper"][0]), int(hello["keeper"][1]))
        member = Member(wire, str(hello["node"]), int(hello["place"]), int(hello["ranks"]), keeper, time.monotonic())
        await self.heard.put((member, {"what": "here"}))
        while message := await wire.hear():
            member.heard = time.monotonic()
            if message.get("what") != "alive":
                await self.heard.put((member, message))
        await self.heard.put((member, None))

    async def _gather(self) -> None:
        """All nodes of the job, or those that arrived."""
        deadline = time.monotonic() + self.settings.patience.start
        while len(self.members) < self.nodes and not self.stopping and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    member, message = await self.heard.get()
                    self._note(member, message)
        if self.stopping:
            return
        if len(self.members) < self.nodes:
            came = ", ".join(member.node for member in self.members)
            waited = f"{self.settings.patience.start:g} s"
            told = f"{self.nodes} nodes were to come within {waited}, and there are: {came or 'none'}"
            # Kubernetes, where it resumes a job, starts no program of it again that has failed.
            if os.environ.get("JOB_ID") in self.journal.jobs_with_losses:
                raise _AnewError(f"{told}: this job had lost a node, and another one is to have all of them")
            raise _GaveUpError(told)
        if wrong := misfit(self.settings, [member.ranks for member in self.members]):
            raise _GaveUpError(f"the layout does not fit: {wrong}")

    async def _beats(self) -> None:
        while True:
            for member in self.members:
                member.wire.say({"do": "nothing"})
            await asyncio.sleep(BEAT_S)

    def _note(self, member: Member, message: dict[str, Any] | None) -> None:
        """Handle messages that matter in every state."""
        if message is None:
            if member in self.members:
                self.members.remove(member)
        elif message["what"] == "here":
            self.members = sorted([*self.members, member], key=lambda each: each.place)
        elif message["what"] == "stop asked":
            self.stopping = True

    # -- generations

    async def _generations(self) -> int:
        if self.stopping:
            self.journal.write("end", why="preempted", step=0, text="it was asked to stop before it began")
            return STOPPED
        in_vain = failures = 0
        blamed = ""
        why = "the run begins"
        for number in range(1, self.settings.patience.failures + 2):
            generation = self._formed(number, why)
            ended = await self._through(generation)
            if isinstance(ended, str):
                return FINISHED if ended == "finished" else STOPPED
            self.journal.write(
                "failure", kind=ended.kind, node=ended.node, rank=ended.rank, step=self.step, text=ended.text
            )
            failures += 1
            in_vain = 0 if generation.steps else in_vain + 1
            if in_vain > 1 and ended.node and ended.node == blamed and len(self.members) > 1:
                self._leave_behind(ended.node)
                in_vain = 0
            blamed = ended.node
            if not ended.mends:
                raise _GaveUpError(f"{ended.where} {ended.text}")
            if in_vain == IN_VAIN_MAX:
                raise _GaveUpError(
                    f"{in_vain} times in a row no step was completed; the last time: {ended.where} {ended.text}"
                )
            await self._stopped()
            if not self.members:
                raise _GaveUpError("no node is left")
            why = f"{ended.where} {ended.text}"
        raise _GaveUpError(f"{failures} failures, which is as many as patience.failures allows")

    def _leave_behind(self, node: str) -> None:
        """A node that breaks every generation, such as a node with a broken device."""
        for member in [member for member in self.members if member.node == node]:
            self.members.remove(member)
            member.wire.say({"do": "end", "code": FAILED})
        self.journal.write("notice", text=f"{node} has broken two generations one after the other, and is left behind")

    def _formed(self, number: int, why: str) -> Generation:
        members = list(self.members)
        found = seats(self.settings, [member.ranks for member in members])
        if not found:
            raise _GaveUpError(f"{sum(member.ranks for member in members)} ranks are left, too few for the layout")
        step, cut = self._newest()
        generation = Generation(number, found, members, step, progress=time.monotonic())
        shards = sorted({shard for member in members for shard, at, by in member.held if (at, by) == (step, cut)})
        homes = {
            str(shard): [*member.keeper]
            for member in members
            for shard, at, by in member.held
            if (at, by) == (step, cut)
        }
        second = buddies(found) if self.settings.snapshots else {}
        self.cuts[number] = len({seat.shard for seat in found})
        self.worlds[number] = len(found)
        self.journal.write(
            "generation",
            number=number,
            world=len(found),
            nodes=sorted({members[seat.node].node for seat in found}),
            why=why,
            **({"source": "memory", "step": step + 1} if step else {}),
        )
        for place, member in enumerate(members):
            member.wire.say(
                {
                    "do": "form",
                    "generation": number,
                    "world": len(found),
                    "seats": [vars(seat) for seat in found if seat.node == place],
                    "step": step,
                    "shards": shards,
                    "homes": homes,
                    "cut": cut,
                    "same": cut > 0 and self.worlds[cut] == len(found),
                    "buddies": {
                        str(rank): [*members[node].keeper] for rank, node in second.items() if found[rank].node == place
                    },
                }
            )
        return generation

    def _newest(self) -> tuple[int, int]:
        """Return the newest step whose parts are all in memory of present nodes, and its generation; 0 for none."""
        parts: dict[tuple[int, int], set[int]] = {}
        for member in self.members:
            for shard, step, cut in member.held:
                parts.setdefault((step, cut), set()).add(shard)
        whole = [key for key, shards in parts.items() if len(shards) == self.cuts.get(key[1])]
        return max(whole, default=(0, 0))

    async def _through(self, generation: Generation) -> str | Failure:
        """Wait until the generation finishes, stops or fails."""
        broken: tuple[float, Failure] | None = None
        looked = time.monotonic()
        if self.stopping:
            self._want(generation, WANTS_STOP)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    member, message = await self.heard.get()
                    self._note(member, message)
                    if self.stopping and message and message["what"] == "stop asked":
                        self._want(generation, WANTS_STOP)
                    found = self._told(generation, member, message)
                    if isinstance(found, Failure) and found.kind == BROKEN:
                        broken = broken or (time.monotonic(), found)
                    elif found:
                        return found
            now = time.monotonic()
            if now - looked > 2 * BEAT_S:  # this process was not scheduled for a while, and received no heartbeats
                for each in self.members:
                    each.heard = now
            looked = now
            if broken and now - broken[0] > WHO_WAS_FIRST_S + self.settings.patience.node:
                return Failure("rank", broken[1].text, broken[1].node, broken[1].rank)
            if failure := self._silent(generation, now):
                return failure

    def _silent(self, generation: Generation, now: float) -> Failure | None:
        """Return the member that has been silent for too long."""
        patience = self.settings.patience
        if silent := [member for member in generation.members if now - member.heard > patience.node]:
            self.members = [member for member in self.members if member not in silent]
            for member in silent:  # should they wake up
                member.wire.say({"do": "end", "code": FAILED})
            names = ", ".join(member.node for member in silent)
            return Failure("node", f"no sign of life for {patience.node:g} s", names)
        if now - generation.progress > patience.step:
            what = "is not ready" if len(generation.ready) < len(generation.seats) else "makes no step"
            return Failure("hang", f"it {what} for {patience.step:g} s")
        return None

    def _told(self, generation: Generation, member: Member, message: dict[str, Any] | None) -> str | Failure | None:
        """Handle a message for the generation."""
        if message is None:
            return Failure("node", "its agent is gone", member.node) if member in generation.members else None
        if message.get("generation") != generation.number:
            return None
        rank, what = int(message["rank"]), str(message["what"])
        if what in FAILURES:
            kind, mends = FAILURES[what]
            over = what == "gone" and rank in generation.through
            return None if over else Failure(kind, str(message["text"]), member.node, rank, mends)
        if what in ("finished", "stopped"):
            return self._ended(generation, rank, what, message)
        self._take(generation, rank, what, message)
        return None

    def _take(self, generation: Generation, rank: int, what: str, message: dict[str, Any]) -> None:
        if what == "store":  # the address where ranks meet
            told = {"store": [message["address"], message["port"]]}
            for member in generation.members:
                member.wire.say({"do": "tell", "answer": told})
        elif what == "ready":
            self._ready(generation, rank, message)
        elif what == "step":
            self._stepped(generation, message)
        elif what == "checkpoint":
            self.journal.saved(message)
            self._compare(float(message["seconds"]))
        elif what == "notice":
            self.journal.write("notice", text=message["text"])

    def _compare(self, seconds: float) -> None:
        """Report once that the last checkpoint before the run's time limit may come too late."""
        notice = self.settings.notice_s
        if seconds > notice / 2 and not self.compared:
            self.compared = True
            what = f"a checkpoint takes {seconds:.3g} s, and the scheduler says {notice} s before that time is up"
            remedy = f"cancel the run, and submit it again with --set notice_s={math.ceil(4 * seconds)}"
            self.journal.write("notice", text=f"{what}: a torn one is not used, but the one before it: {remedy}")

    def _ready(self, generation: Generation, rank: int, message: dict[str, Any]) -> None:
        generation.ready[rank] = int(message["pid"])
        if not rank:
            generation.step = int(message["step"])
            generation.about = dict(message["about"])
            for text in message["passed_over"]:
                self.journal.write("notice", text=text)
        if len(generation.ready) == len(generation.seats):
            generation.progress = time.monotonic()
            at = [[generation.member(each).node, generation.ready[each]] for each in range(len(generation.seats))]
            told = {"number": generation.number, "step": generation.step, "source": message["source"]}
            self.journal.write("ready", **told, ranks=at, **generation.about)

    def _stepped(self, generation: Generation, message: dict[str, Any]) -> None:
        generation.progress = time.monotonic()
        generation.steps += 1
        self.step = int(message["step"])
        self.journal.stepped(generation.number, message)
        if self.journal.wants_checkpoint():
            self._want(generation, WANTS_CHECKPOINT)

    def _ended(self, generation: Generation, rank: int, what: str, message: dict[str, Any]) -> str | None:
        generation.through[rank] = what
        if not rank and what == "finished":
            self.digest = str(message["digest"])
        if len(generation.through) < len(generation.seats):
            return None
        if what == "stopped":
            self.journal.write("preempted", step=message["step"])
            self.journal.write("end", why="preempted", step=message["step"], text="it was asked to stop")
        else:
            self.journal.write("end", why="finished", step=message["step"], text="", digest=self.digest)
        return what

    def _want(self, generation: Generation, wanted: int) -> None:
        generation.member(0).wire.say({"do": "tell", "rank": 0, "wanted": wanted})

    async def _stopped(self) -> None:
        """End all ranks, and ask for snapshots in memory; nodes that do not answer are lost."""
        for member in self.members:
            member.held = []
            member.wire.say({"do": "stop"})
        waiting = set(self.members)
        deadline = time.monotonic() + self.settings.patience.step
        while waiting and time.monotonic() < deadline:
            if all(time.monotonic() - member.heard > self.settings.patience.node for member in waiting):
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    member, message = await self.heard.get()
                    self._note(member, message)
                    if message is None:
                        waiting.discard(member)
                    elif message["what"] == "ended":
                        member.held = message["held"]
                        waiting.discard(member)
        for member in waiting:
            self.members.remove(member)
            self.journal.write("failure", kind="node", node=member.node, rank=None, step=self.step, text="no answer")


class _AnewError(Exception):
    """The job lacks something that another job may have."""


class _GaveUpError(Exception):
    """The run cannot continue; the text is the reason."""
