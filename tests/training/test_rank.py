"""Tests of a rank: its device, its refusals, and its first weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from stampworks_train.checkpoint import Found
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from training.layout import Laid, clipped, laid_out
from training.model import Transformer
from training.rank import Place, Rank, _less, run
from training.settings import Checkpoints, Model, Settings
from training.shape import Seat
from training.state import State

from tests.training.ranks import FORKED, together

SHAPE = Model(layers=2, width=24, heads=4, length=8, vocabulary=17)
"""Shape with sizes that cannot all be cut evenly."""
LAYOUTS = [("ddp", 2, 1), ("fsdp", 3, 1), ("hsdp", 4, 1), ("tp", 4, 2)]
"""A layout, the number of ranks on one or two nodes, and the number that shares samples."""
CPU = torch.device("cpu")


def settings(layout: str = "fsdp", parallel: int = 1, **more: Any) -> Settings:
    return Settings("it", "/folder", layout=layout, tensor_parallel=parallel, model=SHAPE, **more)


def rank(on_node: int = 1, step: int = 0, accelerators: int = 0, **more: Any) -> Any:
    """Return the first rank of a node."""
    seat = Seat(0, 0, 0, 0)
    place = Place(settings(seed=5, **more), 1, seat, "127.0.0.1", on_node, on_node, "", step, accelerators=accelerators)
    return Rank(place, None)  # type: ignore[arg-type]


def laid(layout: str, world: int, parallel: int) -> Laid:
    return laid_out(settings(layout, parallel), CPU, max(1, world // 2))


def whole(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def bits(value: torch.Tensor) -> bytes:
    return bytes(value.detach().numpy().tobytes())


class Asked(TorchDispatchMode):  # type: ignore[misc]
    """Count torch's operations in memory by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not any(each.is_meta for each in args if isinstance(each, torch.Tensor)):
            self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


# -- its device


@pytest.fixture
def accelerators(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[torch.device]]:
    """Let torch see this number of accelerators; return those that a rank uses."""

    def seen(count: int) -> list[torch.device]:
        taken: list[torch.device] = []
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "set_device", taken.append)
        return taken

    return seen


def test_a_rank_takes_the_accelerator_of_its_place(accelerators: Callable[[int], list[torch.device]]) -> None:
    """Lost accelerators do not matter while enough are left; a node without any uses its processor."""
    for has, had in ((2, 2), (2, 8)):
        taken = accelerators(has)
        assert [rank(on_node=2, accelerators=had)._device()] == taken == [torch.device("cuda", 0)]
    taken = accelerators(0)
    assert rank(on_node=4)._device() == CPU
    assert not taken


@pytest.mark.parametrize(
    ("ranks", "had", "sees", "said"),
    [
        (
            *(2, 1, 1),
            "2 ranks are to train on this node, which has 1 accelerator, and each rank needs one: set ranks to 1 or "
            "less, or to 0, which is one for each accelerator",
        ),
        (
            *(9, 8, 7),
            "9 ranks are to train on this node, which has 8 accelerators, and each rank needs one: set ranks to 8 or "
            "less, or to 0, which is one for each accelerator",
        ),
        (8, 8, 7, "the node had 8 accelerators, and torch sees 7 of them now"),
        (1, 8, 0, "the node had 8 accelerators, and torch sees none any more"),
    ],
)
def test_too_few_accelerators_are_said(
    ranks: int, had: int, sees: int, said: str, accelerators: Callable[[int], list[torch.device]]
) -> None:
    """The message has a remedy. An impossible run is not retried; a node that lost some accelerators may recover, or is
    left behind."""
    taken = accelerators(sees)
    with pytest.raises(ValueError if ranks > had else RuntimeError) as raised:  # `run` tells them apart
        rank(on_node=ranks, accelerators=had)._device()
    assert str(raised.value) == said
    assert not taken


# -- its memory


@pytest.mark.parametrize(
    ("more", "world", "at_once", "said"),
    [
        ({"layout": "ddp"}, 8, 5, "a rank computes 5 samples at once: set micro to 2 or less"),
        ({"precision": "float32"}, 8, 1, "numbers between layers are of 32 bits: set precision to bfloat16"),
        ({"layout": "ddp"}, 8, 1, "each rank holds all of the state: set layout to fsdp, which cuts it among all "),
        ({"layout": "hsdp"}, 8, 0, "each node holds all of the state: set layout to fsdp, which cuts it among all "),
        ({"layout": "ddp"}, 1, 1, "take more ranks, a shorter model.length, or a smaller model"),
        ({"layout": "fsdp"}, 8, 0, "take more ranks, a shorter model.length, or a smaller model"),
    ],
)
def test_memory_advice_names_settings_of_the_run(more: dict[str, Any], world: int, at_once: int, said: str) -> None:
    assert _less(settings(**more), world, at_once).startswith(said)


FULL = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 12.94 MiB is "
    "free. Including non-PyTorch memory, this process has 79.09 GiB memory in use. Of the allocated memory 78.06 GiB is"
)


def test_memory_that_is_full_says_what_needs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the figures, without torch's advice about its allocator. The run is not retried."""

    def full(rank: Rank) -> None:
        rank.at_once = 8
        raise torch.OutOfMemoryError(FULL)

    monkeypatch.setattr(Rank, "live", full)
    here, there = FORKED.Pipe()
    process = FORKED.Process(target=run, args=(rank().place, there))
    process.start()
    assert here.poll(60)
    assert here.recv() == {
        "what": "fatal",
        "text": f"{FULL.partition(' Including')[0].rstrip('.')}: a rank computes 8 samples at once: set micro to 4 or "
        "less",
    }
    process.join(60)
    assert process.exitcode == 0


# -- the norm


def gradients(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Something for each weight, and the whole of it: the same on all ranks."""
    for number, weight in enumerate(model.parameters()):
        weight.grad = torch.ones_like(weight.detach()) * (number + 1)
        yield whole(weight.grad)


@pytest.mark.parametrize(("layout", "world", "parallel"), LAYOUTS)
def test_the_norm_is_that_of_all_gradients_however_they_are_cut(layout: str, world: int, parallel: int) -> None:
    """Each number counts once on any rank; gradients above the limit are scaled to it."""

    def work(_: int) -> list[float]:
        model = laid(layout, world, parallel).model
        expected = math.sqrt(sum(float(each.double().square().sum()) for each in gradients(model)))
        return [expected, clipped(model, 2 * expected), clipped(model, 0.5), clipped(model, 0.5)]

    for expected, *found in together(world, work):
        assert found == pytest.approx([expected, expected, 0.5], rel=1e-6)


def test_the_norm_of_many_gradients_is_asked_for_as_that_of_few() -> None:
    """An accelerator that was waited for with each of them stood still for a twentieth of a step."""

    def work(_: int) -> list[list[str]]:
        found = []
        for layers in (1, 5):
            model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(layers)))
            list(gradients(model))
            with Asked() as asked:
                clipped(model, 0.1)
            found.append(asked.names)
        return found

    for few, many in together(2, work):
        assert few == many
        assert few.count("_local_scalar_dense.default") == 1


# -- the state


def test_a_device_is_told_of_all_copies_in_one_call() -> None:
    """Copies to a snapshot and back use a single call: a call for each weight would block."""
    model = Transformer(SHAPE)
    model.begin(3)
    one, other = State(model, settings()), State(Transformer(SHAPE), settings())
    snapshot = torch.zeros(one.bytes, dtype=torch.uint8)
    with Asked() as asked:
        one.write(snapshot)
    assert [name for name in asked.names if "copy" in name] == ["_foreach_copy_.default"]
    with Asked() as asked:
        other.read(lambda name: [(piece, snapshot) for piece in one.pieces if piece[0] == name])
    assert [name for name in asked.names if "copy" in name] == ["_foreach_copy_.default"]
    for name, weight in one.weights.items():
        assert torch.equal(other.weights[name], weight), name


# -- the beginning


def drawn(seed: int) -> dict[str, torch.Tensor]:
    """Return the first weights of a run: drawn one after the other, each as a whole."""
    source, found = torch.Generator().manual_seed(seed), {}
    for name, weight in Transformer(SHAPE).named_parameters():
        size = 0.02 / (math.sqrt(2 * SHAPE.layers) if name.endswith(("out.weight", "down.weight")) else 1.0)
        found[name] = (
            torch.randn(weight.shape, generator=source) * size if weight.dim() > 1 else torch.ones_like(weight)
        )
    return found


@pytest.mark.parametrize(("layout", "world", "parallel"), LAYOUTS)
def test_the_first_weights_are_the_same_however_they_are_cut(layout: str, world: int, parallel: int) -> None:
    """A seed gives the same bits on any device, because a processor draws them."""

    def work(_: int) -> dict[str, bytes]:
        model = laid(layout, world, parallel).model
        model.begin(7)
        return {name: bits(whole(weight.detach())) for name, weight in model.named_parameters()}

    assert together(world, work) == [{name: bits(weight) for name, weight in drawn(7).items()}] * world


@pytest.mark.parametrize(("layout", "world", "parallel"), LAYOUTS)
def test_no_weight_is_made_before_it_is_known_which_part_of_it(layout: str, world: int, parallel: int) -> None:
    """The layers would draw all weights for nothing."""

    def work(_: int) -> list[str]:
        with Asked() as asked:
            laid(layout, world, parallel)
        return [name for name in asked.names if any(word in name for word in ("rand", "uniform", "normal"))]

    assert together(world, work) == [[]] * world


SAVED = Found(3, Path(), 1, {}, ())


@pytest.mark.parametrize(("memory", "found", "begins"), [(0, None, 1), (7, None, 0), (0, SAVED, 0)])
def test_weights_are_drawn_only_where_there_are_none(memory: int, found: Found | None, begins: int) -> None:
    """A rank with weights from memory or a checkpoint does not draw them, which takes seconds."""
    drawn: list[int] = []
    it = rank(step=memory)
    it.laid = SimpleNamespace(model=SimpleNamespace(begin=drawn.append))
    it.checkpoints = SimpleNamespace(newest=lambda: found, load=lambda *_: None)
    it.state = SimpleNamespace(read=lambda *_: None, made=lambda *_: None, durable=dict)
    it._snapshots, it._ready = dict, lambda *_: None
    assert it._restored() == (memory or (found.step if found else 0))
    assert drawn == [5] * begins


def test_room_for_checkpoints_is_made_before_the_first_step(tmp_path: Path) -> None:
    """The memory is allocated during the first steps, and not at the first save."""

    def work(_: int) -> list[int]:
        it = rank(checkpoints=Checkpoints(directory=str(tmp_path)))
        it._join = it._train = it._ready = lambda *_: None
        it.live()
        it.checkpoints._check_room()
        parts = [part for kind in it.state.durable().values() for part in kind.values()]
        return [len(parts), len(it.checkpoints._staging._buffers)]

    [[parts, room]] = together(1, work)
    assert parts == room > 0
