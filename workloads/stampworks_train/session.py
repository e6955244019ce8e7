"""A training loop that survives: checkpoints, snapshots in memory and an account of time, for any loop of torch.

    session = Session("runs/mine", model, optimizer)
    for step in session.steps(1000):
        loss = ...                      # forward, backward, optimizer.step()
        session.tell(loss=loss)

The loop begins after the last step that a snapshot or a checkpoint has. Restarted by its launcher, with the same number
of ranks, it ends with the same weights, bit for bit, as an undisturbed run.
"""

from __future__ import annotations

import datetime
import os
import pickle
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .account import Bookkeeper
from .bucket import BucketCheckpoints
from .checkpoint import Checkpoints
from .manifest import CheckpointError
from .snapshots import Newest, Snapshots
from .whole import RANKS, Stateful, Whole, parts, plain, replaced

STOPS = (signal.SIGTERM, signal.SIGUSR1)
RUN = "run-id"


class Session:
    """The checkpoint service of a run.

    All ranks create it with the same arguments, after model and optimizer. `folder` belongs to the run, in a directory
    that all nodes share. `others` are objects with `state_dict` and `load_state_dict` (schedulers, samplers, scalers),
    whose states are separate for each rank. Tensors of model and optimizer must be equal on all ranks, except DTensors,
    of which each rank has its part.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        checkpoints: str | os.PathLike[str] = "",
        keep: int = 3,
        every_s: float = 0.0,
        snapshots: bool = True,
        wait_s: float = 600.0,
        **others: Stateful,
    ) -> None:
        """`checkpoints`: a directory or s3://BUCKET/PREFIX; by default the folder.

        `every_s`: seconds between checkpoints; 0: chosen by their cost and the rate of failures. `wait_s`: how long a
        rank waits for the others.
        """
        known = dist.is_initialized()
        if not known and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError("Session: several ranks must call torch.distributed.init_process_group before")
        self.rank: int = dist.get_rank() if known else 0
        self.world: int = dist.get_world_size() if known else 1
        self._group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=wait_s)) if known else None
        self.folder = Path(folder)
        optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
        self._whole = Whole(model, optimizers, others)
        self._state: dict[str, Any] = {}
        run = self._first(self._run)
        self._book = Bookkeeper(self.folder, self.folder.name, every_s, self.world) if not self.rank else None
        told = (keep, self.rank, self.world, self._whole.fingerprint, wait_s)
        at = os.fspath(checkpoints) or str(self.folder / "checkpoints")
        self._checkpoints = BucketCheckpoints(at, *told) if "://" in at else Checkpoints(Path(at), *told)
        self._snapshots = Snapshots(run, self._group) if snapshots and self._group else None
        self.stopped = False
        """Whether the loop was asked to end: the run can continue later."""
        self._asked = False
        self._agreed: tuple[Any, Tensor] | None = None
        self._told: dict[str, Any] = {}
        self._saved = 0
        self._signals: dict[signal.Signals, Any] = {}
        self.step = self._restored()
        """The last step that is complete."""
        self._listen()
        self._since = time.perf_counter()

    def steps(self, last: int) -> Iterator[int]:
        """Yield the steps from the next one to the last, and save their results."""
        try:
            for step in range(self.step + 1, last + 1):
                yield step
                self.done(step, last=step == last)
                if self.stopped:
                    break
        finally:
            self._unlisten()
        self.close()

    def tell(self, loss: Tensor | float | None = None, tokens: int = 0, data_s: float = 0.0) -> None:
        """Add loss, tokens and seconds of waiting for data to the account of the current step."""
        self._told = {"loss": loss, "tokens": tokens, "data_s": data_s}

    def done(self, step: int, last: bool = False) -> None:
        """Complete a step: for foreign loops, such as a trainer's. Others use `steps`."""
        self.step = step
        wants_save, wants_stop = self._heard()
        self.stopped = wants_stop and not last
        saving = self._checkpoints.saving
        stalled = {"data": float(self._told.get("data_s", 0.0)), "snapshot": 0.0, "checkpoint": 0.0}
        saves = wants_save or wants_stop or last
        if self._snapshots or saves:
            self._state = self._whole.tensors()
        if self._snapshots:
            stalled["snapshot"] = self._snapshot(step)
        if saves:
            stalled["checkpoint"] = self._save(step)
        if not last and not self.stopped:
            self._ask()
        seconds = time.perf_counter() - self._since
        self._since = time.perf_counter()
        self._write(step, seconds, stalled, saving)

    def close(self) -> None:
        """Wait until the last checkpoint is safe, and end the account. `steps` calls it."""
        self._checkpoints.finish()
        self._tell_saved()
        if self._saved != self.step:  # the save failed, or ranks were lost during it
            self._state = self._whole.tensors()
            self._save(self.step)
            self._checkpoints.finish()
            self._tell_saved()
        if self._saved != self.step:
            raise CheckpointError(
                f"{self._checkpoints.shown('')}: the checkpoint of step {self.step} was not saved: see the lines before"
            )
        if self._snapshots:
            self._snapshots.end()
        if self._book:
            self._book.end(self.step, "preempted" if self.stopped else "finished")

    # -- the beginning

    def _run(self) -> str:
        """Return a unique name of the run in its folder; a removed folder means a new run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / RUN
        if not path.exists():
            path.write_text(secrets.token_hex(8) + "\n")
        return f"{path.resolve()} {path.read_text().strip()}"

    def _restored(self) -> int:
        """Return the step of the state: from memory, else from a checkpoint, else from the beginning."""
        newest = self._snapshots.newest if self._snapshots else None
        if newest:
            step, source = self._from_memory(newest), "memory"
        else:
            step, source = self._from_checkpoint()
        if self._book:
            backend = dist.get_backend() if self._group else ""
            self._book.ready(step, source, self._whole.parameters, backend)
        return step

    def _from_memory(self, newest: Newest) -> int:
        assert self._snapshots is not None  # noqa: S101 (where the newest one is from)
        state = self._whole.tensors()
        values = self._snapshots.take(list(parts(state)), newest)
        state = replaced(state, pickle.loads(values)["plain"])  # noqa: S301 (of this run)
        self._whole.take(state, values, self.rank < newest.world)
        return newest.step

    def _from_checkpoint(self) -> tuple[int, str]:
        found = self._checkpoints.newest()
        if found is None:
            return 0, "nothing"
        whose = str(self.rank if self.rank < found.world else 0)
        state = {**self._whole.tensors(), RANKS: {whose: b""}}
        self._checkpoints.load(found, state)
        self._whole.take(state, state[RANKS][whose], self.rank < found.world)
        self._saved = found.step
        for text in found.passed_over:
            self._notice(text)
        return found.step, "checkpoint"

    # -- a step

    def _snapshot(self, step: int) -> float:
        """Seconds that the step waits for it."""
        assert self._snapshots is not None  # noqa: S101 (the caller has looked)
        begun = time.perf_counter()
        self._snapshots.keep(step, list(parts(self._state)), self._whole.values(plain(self._state)))
        problem, self._snapshots.problem = self._snapshots.problem, None
        self._notice(problem)
        return time.perf_counter() - begun

    def _save(self, step: int) -> float:
        """Save, and return the seconds that the step waits for the copy; the write continues in the background."""
        begun = time.perf_counter()
        state = {**self._state, RANKS: {str(self.rank): self._whole.values()}}
        self._checkpoints.save(state, step, {})
        self._checkpoints.copied()  # buffers change in the next forward pass, and not only with the optimizer
        return time.perf_counter() - begun

    def _write(self, step: int, seconds: float, stalled: dict[str, float], saving: bool) -> None:
        self._tell_saved()
        if self._book:
            loss = self._told.get("loss")
            known = None if loss is None else float(loss.detach() if isinstance(loss, Tensor) else loss)
            told = {"loss": known, "tokens": int(self._told.get("tokens", 0))}
            groups = [group for optimizer in self._whole.optimizers for group in optimizer.param_groups]
            rate = groups[0].get("lr") if groups else None
            more = {"seconds": seconds, "stalled": stalled, "rate": None if rate is None else float(rate), "norm": None}
            self._book.stepped(step, {**told, **more}, saving)
        self._told = {}

    def _tell_saved(self) -> None:
        saved, problem = self._checkpoints.done(), self._checkpoints.problem()
        if saved:
            self._saved = saved.step
        if saved and self._book:
            self._book.saved(
                saved.step, saved.seconds, saved.blocked_s, saved.bytes, self._checkpoints.shown(saved.folder.name)
            )
        self._notice(problem)

    def _notice(self, text: str | None) -> None:
        if text and self._book:
            self._book.notice(text)

    # -- together

    def _ask(self) -> None:
        """Begin to find out whether any rank was asked to stop, and whether the first one wants a checkpoint."""
        wanted = torch.tensor([int(bool(self._book and self._book.due())), int(self._asked)], dtype=torch.int32)
        work = dist.all_reduce(wanted, dist.ReduceOp.MAX, self._group, async_op=True) if self._group else None
        self._agreed = (work, wanted)

    def _heard(self) -> tuple[bool, bool]:
        """Return the answer a step later: it has arrived meanwhile, and no step waits for it."""
        if self._agreed is None:
            return False, False
        (work, wanted), self._agreed = self._agreed, None
        if work:
            work.wait()
        return bool(wanted[0]), bool(wanted[1])

    def _first(self, work: Any) -> Any:
        """The value that the first rank finds, on every rank."""
        found = [None if self.rank else work()]
        if self._group:
            dist.broadcast_object_list(found, 0, group=self._group)
        return found[0]

    def _listen(self) -> None:
        """Asked to end, the run saves after the current step first."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in STOPS:
            self._signals[number] = signal.signal(number, self._stop)

    def _unlisten(self) -> None:
        for number, before in self._signals.items():
            signal.signal(number, before)
        self._signals = {}

    def _stop(self, *_: object) -> None:
        self._asked = True
