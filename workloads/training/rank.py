"""Run a rank of a generation: restore the state, train, and write snapshots and checkpoints.

The process may be killed at any time. It reports to its agent through a pipe.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import platform
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # otherwise each rank would import it for seconds: the process that forks ranks does it once
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from stampworks_train.checkpoint import Checkpoints
from stampworks_train.interval import Beside
from stampworks_train.keeper import SLOTS
from stampworks_train.manifest import CheckpointError
from stampworks_train.memory import Memory
from stampworks_train.snapshot import overlaps, sources_of
from stampworks_train.wire import WANTS_STOP
from stampworks_train.words import without_secrets
from torch import nn
from torch.distributed.tensor import DTensor

from . import float8
from .data import DataError, Stream
from .layout import clipped, laid_out
from .settings import Settings
from .shape import Seat
from .state import State, die_with_parent


@dataclass(frozen=True)
class Place:
    """Place of a rank."""

    settings: Settings
    generation: int
    seat: Seat
    address: str
    """Address of its node."""
    world: int
    on_node: int
    """Number of ranks on this node."""
    memory: str
    """A folder in shared memory that outlives the rank."""
    step: int
    """Step of the snapshots to continue from; 0: from a checkpoint, or from the beginning."""
    shards: tuple[int, ...] = ()
    """Parts of which the snapshots consist."""
    same: bool = False
    """Whether they were cut as this generation cuts."""
    accelerators: int = 0
    """Accelerators of the node when it joined."""
    keeps: bool = True
    """Whether it leaves snapshots: of the ranks of a node with the same state, only one does."""


def run(place: Place, pipe: Connection) -> None:
    """The whole life of a rank."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent decides when to end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    rank = Rank(place, pipe)
    try:
        rank.live()
    except torch.OutOfMemoryError as error:
        figures = ". ".join(f"{error}".split(". ")[:3])  # requested and available memory: the rest is about torch
        pipe.send({"what": "fatal", "text": f"{figures}: {_less(place.settings, place.world, rank.at_once)}"})
    except (DataError, CheckpointError, ValueError, MemoryError) as error:
        pipe.send({"what": "fatal", "text": f"{error}"})
    except Exception as error:  # a lost peer breaks collectives in many ways
        pipe.send({"what": "broke", "text": f"{type(error).__name__}: {error}"})
        signal.pause()  # the first rank to end is found, and then all are ended
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of gloo may wait for each other for ever


@dataclass
class Stalls:
    """Seconds of the current step that were not spent on training."""

    data: float = 0.0
    snapshot: float = 0.0
    checkpoint: float = 0.0


@dataclass
class Rank:
    """State of a rank's process."""

    place: Place
    pipe: Connection
    wanted: int = 0
    kept: int = 0
    """The newest step whose snapshot is safe."""
    saved: int = 0
    unwritten: int = 0
    """The step of a snapshot that is being copied."""
    at_once: int = 0
    """Samples that it computes at once; none before it trains."""
    answers: dict[str, Any] = field(default_factory=dict)
    beside: Beside = field(default_factory=Beside)

    def live(self) -> None:
        """Join the others, restore the state, and train until the end or an order to stop."""
        settings = self.place.settings
        self.device = self._device()
        self.copies = torch.cuda.Stream() if self.device.type == "cuda" else None
        self._join()
        self.laid = laid_out(settings, self.device, self.place.on_node, self._linear())
        self.state = State(self.laid.model, settings)
        folder = Path(settings.checkpoints.directory or Path(settings.folder) / "checkpoints")
        self.checkpoints = Checkpoints(
            folder,
            settings.checkpoints.keep,
            self.place.seat.rank,
            self.place.world,
            settings.model.fingerprint,
            settings.checkpoints.wait_s,
        )
        self.checkpoints.prepare(self.state.durable())
        step = self._restored()
        self._train(step)

    # -- the beginning

    def _device(self) -> torch.device:
        """Return an accelerator for the rank, or the CPU if the node never had one: lost accelerators are an error."""
        ranks, had, seen = self.place.on_node, self.place.accelerators, devices()
        most = max(had, seen)
        if not most:
            return torch.device("cpu")
        if ranks > most:
            raise ValueError(
                f"{ranks} ranks are to train on this node, which has {most} accelerator{'' if most == 1 else 's'}, and "
                f"each rank needs one: set ranks to {most} or less, or to 0, which is one for each accelerator"
            )
        if ranks > seen:
            left = f"{seen} of them now" if seen else "none any more"
            raise RuntimeError(f"the node had {had} accelerators, and torch sees {left}")
        device = torch.device("cuda", self.place.seat.local)
        torch.cuda.set_device(device)
        return device

    def _linear(self) -> Any:
        """Return the multiplication of this precision."""
        if self.place.settings.precision != "float8":
            return nn.Linear
        if why := float8.why_not(self.device):
            raise ValueError(f"precision float8 needs {why}: bfloat16 and float32 go everywhere")
        return float8.Linear

    def _join(self) -> None:
        """Let all ranks of the generation meet at the first one's store."""
        settings, rank, world = self.place.settings, self.place.seat.rank, self.place.world
        patience = datetime.timedelta(seconds=settings.patience.step)
        more = {"timeout": patience, "wait_for_workers": False, "use_libuv": False}  # Debian's torch lacks it
        if not rank:
            listening = socket.create_server((self.place.address, 0))  # torch itself would listen everywhere
            port = listening.getsockname()[1]
            store = dist.TCPStore(self.place.address, port, world, True, **more, master_listen_fd=listening.detach())
            self.pipe.send({"what": "store", "address": self.place.address, "port": port})
        else:
            address, port = self._answer("store")
            store = dist.TCPStore(address, port, world, False, **more)
        backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=patience)

    def _restored(self) -> int:
        """Return the step of the state: from memory, else from a checkpoint, else from the beginning."""
        place = self.place
        if place.step:
            self.state.read(sources_of(self._snapshots()))
            self.state.made(place.step)
            self._ready(place.step, "memory", [])
            return place.step
        found = self.checkpoints.newest()
        if found is None:
            self.laid.model.begin(self.place.settings.seed)
            self._ready(0, "nothing", [])
            return 0
        self.checkpoints.load(found, self.state.durable())
        self.state.made(found.step)
        self.saved = found.step
        self._ready(found.step, "checkpoint", [*found.passed_over, *self._other_order(found.told)])
        return int(found.step)

    def _other_order(self, told: dict[str, Any]) -> list[str]:
        """Reason for another order of samples than before the checkpoint: some may be repeated, and some skipped."""
        was, now = told.get("settings", {}), without_secrets(self.place.settings.told())
        fixed = [("batch",), ("model", "length"), ("data", "source"), ("data", "seed")]
        changed = [
            f"{'.'.join(path)} was {_at(was, path)} and is {_at(now, path)}"
            for path in fixed
            if _at(was, path) != _at(now, path)
        ]
        return [f"samples come in another order than before: {', '.join(changed)}"] if changed else []

    def _snapshots(self) -> dict[int, tuple[Any, torch.Tensor]]:
        """Return the parts of the state that this rank needs."""
        place = self.place
        needed = [place.seat.shard]
        if not place.same:
            tables = self._ask({"what": "want", "shards": list(place.shards), "pieces": True}, "pieces")
            needed = [
                int(shard)
                for shard, pieces in tables.items()
                if any(piece[0] == own[0] and overlaps(piece, own) for piece in pieces for own in self.state.pieces)
            ]
        have = self._ask({"what": "want", "shards": needed, "pieces": False}, "have")
        return {int(shard): (pieces, Memory(Path(path), 0).tensor) for shard, (path, pieces) in have.items()}

    def _ready(self, step: int, source: str, passed_over: list[str]) -> None:
        dist.barrier()
        dist.barrier()  # the connections of both directions are there
        told = {"step": step, "source": source, "passed_over": passed_over, "pid": os.getpid()}
        self.pipe.send({"what": "ready", **told, "about": self._about() if not self.place.seat.rank else {}})

    def _about(self) -> dict[str, Any]:
        """Return facts about the program and machine of the run."""
        weights = {name: weight for name, weight in self.state.weights.items() if not name.startswith("embedding.")}
        device = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else platform.machine()
        return {
            "parameters": sum(weight.numel() for weight in weights.values()),
            "device": device,
            "backend": dist.get_backend(),
            "versions": {"torch": str(torch.__version__), "python": platform.python_version()},
        }

    # -- the steps

    def _train(self, done: int) -> None:
        settings, place = self.place.settings, self.place
        pinned = self.device.type == "cuda"
        paths = [Path(place.memory) / f"own-{place.generation}-{place.seat.rank}-{slot}" for slot in range(SLOTS)]
        slots = [Memory(path, self.state.bytes, pinned) for path in paths] if settings.snapshots and place.keeps else []
        self.pipe.send({"what": "pieces", "pieces": self.state.pieces, "paths": [str(path) for path in paths]})
        rows = rows_of(settings.batch, self.laid.part, self.laid.parts)
        real = [row for row in rows if row is not None]
        self.at_once = min(settings.micro or len(rows), len(rows))
        stream = Stream(settings.data, settings.batch, settings.model.length, real, done + 1)
        self.kept = done
        if stream.vocabulary > settings.model.vocabulary:
            raise ValueError(
                f"{settings.data.source}: its tokens go up to {stream.vocabulary - 1}, and model.vocabulary is "
                f"{settings.model.vocabulary}: make it {stream.vocabulary} or more"
            )
        for step in range(done + 1, settings.steps + 1):
            begun, saving = time.perf_counter(), self.checkpoints.saving
            stalls = Stalls()
            tokens = torch.from_numpy(next(stream)[1]) if real else torch.zeros((0, settings.model.length + 1)).long()
            stalls.data = stream.waited_s if real else 0.0
            loss, norm = self._step(step, tokens.to(self.device), len(rows), stalls)
            copying = self._until_kept(step - 1) if slots else 0.0
            stalls.snapshot = copying
            told = self._together(loss)
            if not math.isfinite(told.loss):
                raise ValueError(_senseless(step, f"the loss is {told.loss}", settings))
            if slots:
                stalls.snapshot += self._snapshot(slots[step % SLOTS], step)
            saves = bool(told.wanted) or step == settings.steps
            if saves:
                stalls.checkpoint += self._save(step)
            time.sleep(max(0.0, begun + settings.pace_s - time.perf_counter()))
            seconds = time.perf_counter() - begun
            self.beside.step(seconds - stalls.checkpoint, saving)
            self._tell_of(step, told.loss, norm, seconds, stalls, {"saves": saves, "copying": copying})
            while stream.notices:
                self.pipe.send({"what": "notice", "text": stream.notices.pop(0)})
            if told.wanted & WANTS_STOP:
                self._end_snapshot()
                self._finish_saving(step)
                self.pipe.send({"what": "stopped", "step": step})
                return
        if place.step == settings.steps:  # the others were lost while the last checkpoint was written
            self._save(settings.steps)
        self._finish_saving(settings.steps)
        stream.close()
        self.pipe.send({"what": "finished", "step": settings.steps, "digest": self._digest()})
        dist.barrier()

    def _step(self, step: int, tokens: torch.Tensor, rows: int, stalls: Stalls) -> tuple[torch.Tensor, float]:
        """The loss of this rank's samples, summed over their tokens, and the norm of all gradients."""
        settings = self.place.settings
        whole = settings.batch * settings.model.length
        total = torch.zeros((), device=self.device)
        size = self.at_once
        starts = range(0, rows, size)
        for start in starts:
            part = tokens[start : start + size]
            with self.laid.accumulating(start + size >= rows):
                # gradients are averaged over all ranks, and must be averaged over all tokens
                loss = self._loss(part)
                (loss * (self.laid.parts / whole)).backward()
            total += loss.detach()
        norm = clipped(self.laid.model, settings.clip)
        if not math.isfinite(norm):
            raise ValueError(_senseless(step, f"the gradients' norm is {norm}", settings))
        self._end_snapshot()
        stalls.checkpoint += self.checkpoints.copied()
        self.state.step(learning_rate(settings, step))
        return total, norm

    def _loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the loss, summed over tokens; a rank without a sample computes one that does not count, because the
        others wait."""
        weight = 1.0
        if not len(tokens):
            tokens = torch.zeros((1, self.place.settings.model.length + 1), dtype=torch.long, device=self.device)
            weight = 0.0
        autocast = self.laid.narrow and self.place.settings.layout == "ddp"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=autocast):
            scores = self.laid.runs(tokens[:, :-1])
        loss = F.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
        return loss * weight

    def _together(self, loss: torch.Tensor) -> Together:
        """Share the mean loss and the requests to the first rank after a step."""
        while self.pipe.poll():
            self._hear()
        wanted = self.wanted if not self.place.seat.rank else 0
        values = torch.tensor([float(loss), float(wanted)], dtype=torch.float64)
        dist.all_reduce(values)
        settings = self.place.settings
        copies = self.place.world // self.laid.parts
        self.wanted = 0
        return Together(float(values[0]) / copies / (settings.batch * settings.model.length), round(float(values[1])))

    def _until_kept(self, step: int) -> float:
        """Wait until the second copy of this step is safe, and return the seconds. Older copies are removed when all
        ranks have come this far."""
        begun = time.perf_counter()
        while self.kept < step:
            self._hear()
        return time.perf_counter() - begun

    def _snapshot(self, slot: Memory, step: int) -> float:
        """Seconds it took."""
        begun = time.perf_counter()
        self.pipe.send({"what": "writing", "step": step})
        self.unwritten = step
        if self.copies:
            self.copies.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.copies):
                self.state.write(slot.tensor)
        else:
            self.state.write(slot.tensor)
            self._end_snapshot()
        return time.perf_counter() - begun

    def _end_snapshot(self) -> None:
        """Wait for the copy of an accelerator, which runs beside the next step and ends before the weights change."""
        if self.unwritten:
            if self.copies:
                self.copies.synchronize()
            self.pipe.send({"what": "written", "step": self.unwritten})
            self.unwritten = 0

    def _save(self, step: int) -> float:
        """Save, and return the seconds that training waits; the write continues in the background."""
        begun = time.perf_counter()
        told = without_secrets(self.place.settings.told())
        self.checkpoints.save(self.state.durable(), step, {"settings": told})
        return time.perf_counter() - begun

    def _finish_saving(self, step: int) -> None:
        """Wait until the checkpoint of the last step is safe: the run must not end successfully without it."""
        self.checkpoints.finish()
        if self._tell_saved() != step:
            where = self.checkpoints.folder
            raise CheckpointError(
                f"{where}: the last checkpoint, of step {step}, was not saved: see the notices before"
            )

    def _tell_saved(self) -> int:
        """The step of the newest checkpoint."""
        if problem := self.checkpoints.problem():
            self.pipe.send({"what": "notice", "text": problem})
        if saved := self.checkpoints.done():
            self.saved = saved.step
        if saved and not self.place.seat.rank:
            self.pipe.send(
                {
                    "what": "checkpoint",
                    "step": saved.step,
                    "seconds": saved.seconds,
                    "blocked_s": saved.blocked_s,
                    "slowed_s": self.beside.ended(),
                    "bytes": saved.bytes,
                    "folder": str(saved.folder),
                }
            )
        return self.saved

    def _tell_of(
        self, step: int, loss: float, norm: float, seconds: float, stalls: Stalls, more: dict[str, Any]
    ) -> None:
        self._tell_saved()
        if self.place.seat.rank:
            return
        settings = self.place.settings
        tokens = settings.batch * settings.model.length
        self.pipe.send(
            {
                "what": "step",
                "step": step,
                "loss": loss,
                "tokens": tokens,
                "seconds": seconds,
                "stalled": vars(stalls),
                **more,
                "rate": learning_rate(settings, step),
                "norm": norm,
                **self._memory(),
            }
        )

    def _memory(self) -> dict[str, int]:
        """Return the most memory of the accelerator, in bytes, that tensors had since the step before."""
        if self.device.type != "cuda":
            return {}
        most = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        return {"memory": most}

    def _digest(self) -> str:
        """Return the digest of all weights, the same for any sharding."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.state.weights.items()):
            whole = weight.full_tensor() if isinstance(weight, DTensor) else weight.data
            digest.update(name.encode())
            digest.update(whole.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    # -- the pipe

    def _hear(self) -> None:
        message = self.pipe.recv()
        self.wanted |= message.get("wanted", 0)
        self.kept = max(self.kept, message.get("kept", 0))
        self.answers.update(message.get("answer", {}))

    def _ask(self, question: dict[str, Any], name: str) -> Any:
        self.pipe.send(question)
        return self._answer(name)

    def _answer(self, name: str) -> Any:
        while name not in self.answers:
            self._hear()
        return self.answers.pop(name)


@dataclass(frozen=True)
class Together:
    """Values of a step that all ranks share."""

    loss: float
    wanted: int


def _senseless(step: int, what: str, settings: Settings) -> str:
    return f"step {step}: {what}: try a lower learning_rate than {settings.learning_rate}"


def _less(settings: Settings, world: int, at_once: int) -> str:
    """Return a setting that needs less memory of an accelerator, the cheapest first."""
    if at_once > 1:
        return f"a rank computes {at_once} samples at once: set micro to {at_once // 2} or less"
    if settings.precision == "float32":
        return "numbers between layers are of 32 bits: set precision to bfloat16"
    if settings.layout == "ddp" and world > 1:
        return "each rank holds all of the state: set layout to fsdp, which cuts it among all ranks"
    if settings.layout == "hsdp":
        return "each node holds all of the state: set layout to fsdp, which cuts it among all ranks"
    return "take more ranks, a shorter model.length, or a smaller model"


def _at(told: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        told = told.get(name) if isinstance(told, dict) else None
    return told


def learning_rate(settings: Settings, step: int) -> float:
    """Return the learning rate: a warm-up to the full rate, then half a cosine down to a tenth of it."""
    if step <= settings.warmup:
        return settings.learning_rate * step / settings.warmup
    way = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.learning_rate * (0.55 + 0.45 * math.cos(math.pi * way))


def rows_of(batch: int, part: int, parts: int) -> list[int | None]:
    """Return a part's samples of a step: the same number for each part, so that some have none in the last place."""
    return [row if row < batch else None for row in range(part, parts * math.ceil(batch / parts), parts)]


def devices() -> int:
    """Return the accelerators of this node. An agent must not call this: a fork cannot use a device that its parent has
    initialized."""
    count: int = torch.cuda.device_count()
    return count
