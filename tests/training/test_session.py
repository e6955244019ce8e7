"""The checkpoint session in a user's loop."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from stampworks_train import Session, StepSampler, keeper
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.training.ranks import alone, begun, ended, together

ROOT = Path(__file__).resolve().parents[2]
LAST, LOST_AT = 12, 7
SAMPLES = torch.randn(96, 16, generator=torch.Generator().manual_seed(3))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """The processes that keep snapshots end with their run."""
    yield
    deadline = time.monotonic() + 20
    while left := list(keeper.MEMORY.glob("stampworks-session-*")):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def made(layout: str) -> nn.Module:
    """Return a model with dropout, whose random numbers must continue."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 16))
    if layout == "fsdp":
        return fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return DistributedDataParallel(model) if layout == "ddp" else model


def loop(
    rank: int, folder: Path, layout: str, at: Callable[[int], None] = lambda step: None, last: int = LAST, **more: Any
) -> tuple[int, str, bool]:
    """Train, and return the step of the start, the digest of the result, and whether a stop was requested."""
    model = made(layout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.9)
    torch.manual_seed(10 + rank)
    session = Session(folder, model, optimizer, scheduler=scheduler, **more)
    first, rows = session.step, iter(StepSampler(len(SAMPLES), 16, after=session.step))
    for step in session.steps(last):
        batch = SAMPLES[next(rows)]
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        session.tell(loss=loss, tokens=batch.numel())
        at(step)
    return first, digest(model), session.stopped


def digest(model: nn.Module) -> str:
    found = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        whole = weight.full_tensor() if isinstance(weight, DTensor) else weight
        found.update(name.removeprefix("module.").encode() + whole.numpy().tobytes())
    return found.hexdigest()


def die(rank: int, step: int) -> None:
    if rank == 1 and step == LOST_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def interrupted(world: int, work: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run ranks and kill one; the others are ended with it, as by a launcher, and the caller restarts them."""
    ranks = begun(world, work)
    ranks[1][0].join()
    for process, _ in ranks:
        process.kill()
        process.join()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "record.json").read_text())
    jsonschema.validate(found, json.loads((ROOT / "workloads" / "record.schema.json").read_text()))
    return found


@pytest.mark.parametrize("layout", ["ddp", pytest.param("fsdp", marks=pytest.mark.long)])
def test_a_run_that_lost_a_rank_ends_with_the_same_bits(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State comes from the node's memory: only the lost step is repeated."""
    [(_, undisturbed, _), _] = together(2, lambda rank: loop(rank, tmp_path / "one", layout))
    interrupted(2, lambda rank: loop(rank, tmp_path / "two", layout, functools.partial(die, rank)), monkeypatch)
    again = together(2, lambda rank: loop(rank, tmp_path / "two", layout))
    assert again == [(LOST_AT - 1, undisturbed, False)] * 2
    told = record(tmp_path / "two")
    assert [failure["source"] for failure in told["failures"]] == ["memory"]
    assert told["account"]["step"] == LAST
    assert told["account"]["steps_lost"] <= 1
    assert told["state"] == "finished"
    assert sum(told["account"]["bins"].values()) == pytest.approx(told["account"]["wall_s"])


@pytest.mark.parametrize("layout", ["ddp", pytest.param("fsdp", marks=pytest.mark.long)])
def test_without_snapshots_a_checkpoint_is_where_it_goes_on(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random numbers and learning rate are those of that step."""
    run = functools.partial(loop, snapshots=False, every_s=1e-6)
    [(_, undisturbed, _), _] = together(2, lambda rank: run(rank, tmp_path / "one", layout))
    interrupted(2, lambda rank: run(rank, tmp_path / "two", layout, functools.partial(die, rank)), monkeypatch)
    [(first, found, _), _] = together(2, lambda rank: run(rank, tmp_path / "two", layout))
    assert 0 < first < LOST_AT
    assert found == undisturbed
    assert [failure["source"] for failure in record(tmp_path / "two")["failures"]] == ["checkpoint"]


def test_fewer_ranks_take_the_parts_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single rank combines the parts that two ranks have left in memory."""
    interrupted(2, lambda rank: loop(rank, tmp_path / "it", "fsdp", functools.partial(die, rank)), monkeypatch)
    [(first, found, _)] = together(1, lambda rank: loop(rank, tmp_path / "it", "fsdp", last=LOST_AT - 1))
    [(_, undisturbed, _), _] = together(2, lambda rank: loop(rank, tmp_path / "one", "fsdp", last=LOST_AT - 1))
    assert (first, found) == (LOST_AT - 1, undisturbed)


def test_asked_to_stop_it_saves_and_goes_on_later(tmp_path: Path) -> None:
    """For any signalled rank, all stop after the same step. Only the checkpoint is left, no memory."""

    def stop(rank: int, step: int) -> None:
        if rank == 1 and step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    [(_, undisturbed, _), _] = together(2, lambda rank: loop(rank, tmp_path / "one", "ddp"))
    first = together(2, lambda rank: loop(rank, tmp_path / "two", "ddp", functools.partial(stop, rank)))
    assert [stopped for _, _, stopped in first] == [True, True]
    assert record(tmp_path / "two")["state"] == "preempted"
    second = together(2, lambda rank: loop(rank, tmp_path / "two", "ddp"))
    assert {(4 < step < LAST, found) for step, found, _ in second} == {(True, undisturbed)}
    assert [each["end"] for each in record(tmp_path / "two")["attempts"]] == ["preempted", "finished"]


def test_a_run_that_is_through_has_nothing_to_do(tmp_path: Path) -> None:
    """A process group is not needed."""
    first = alone(lambda: loop(0, tmp_path / "it", "one"))
    assert alone(lambda: loop(0, tmp_path / "it", "one")) == (LAST, first[1], False)


def test_a_missing_part_of_the_state_is_said(tmp_path: Path) -> None:
    """Another model is refused, too: nothing is silently trained again."""

    def resumed(width: int, **more: Any) -> str:
        model = nn.Linear(width, 4)
        try:
            Session(tmp_path / "it", model, torch.optim.SGD(model.parameters(), lr=0.1), **more)
        except Exception as error:
            return str(error)
        return ""

    def first() -> None:
        model = nn.Linear(4, 4)
        session = Session(tmp_path / "it", model, torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in session.steps(1):
            model(torch.ones(4)).sum().backward()

    alone(first)
    sampler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.zeros(1)], lr=1.0), 1)
    assert alone(lambda: resumed(4, sampler=sampler)) == (
        "the state that this run goes on from has no 'sampler': it was not given to Session"
    )
    assert "is of another model" in alone(lambda: resumed(5))


def test_several_ranks_must_have_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    model = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match="several ranks must call torch"):
        Session(tmp_path, model, torch.optim.SGD(model.parameters()))


def test_a_lost_keeper_is_told_and_does_not_hang(tmp_path: Path) -> None:
    """The run ends, and is started again by its launcher."""

    def end_keeper(step: int) -> None:
        if step == 3:
            for where in keeper.MEMORY.glob("stampworks-session-*"):
                with contextlib.suppress(OSError):
                    os.kill(int(json.loads((where / "where.json").read_text())["process"]), signal.SIGKILL)
            time.sleep(0.5)

    [(process, pipe)] = begun(1, lambda rank: loop(rank, tmp_path / "it", "ddp", end_keeper))
    with pytest.raises(AssertionError, match="the process that keeps snapshots of this node is gone"):
        ended(process, pipe)
    together(1, lambda rank: loop(rank, tmp_path / "it", "ddp"))  # its parts in memory are reused or removed


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_share_the_rows_of_a_step(world: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch takes no sample twice, and a step has the same samples for any number of ranks."""
    monkeypatch.setenv("WORLD_SIZE", str(world))
    steps: list[set[int]] = [set() for _ in range(9)]
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        rows = iter(StepSampler(50, 12, seed=5))
        for step in steps:
            taken = next(rows)
            assert len(taken) == 12 // world
            step |= set(taken)
        later = iter(StepSampler(50, 12, after=6, seed=5))
        assert set(next(later)) <= steps[6]
    assert [len(step) for step in steps] == [12] * 9
    assert len(set().union(*steps[:4])) == 48
    assert steps[0] != steps[4]


def test_a_batch_must_fit_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="batch 6 must be a multiple of the 4 ranks"):
        StepSampler(50, 6)
    with pytest.raises(ValueError, match="7 samples do not fill a step of 8"):
        StepSampler(7, 8)
