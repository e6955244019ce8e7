"""One rank: what it asks of its device, what it refuses, and the numbers that it begins with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from training.layout import Laid, clipped, laid_out
from training.model import Transformer
from training.settings import Model, Settings
from training.state import State

from tests.training.ranks import together

SHAPE = Model(layers=2, width=24, heads=4, length=8, vocabulary=17)
"""Of which not everything can be cut evenly."""
LAYOUTS = [("ddp", 2, 1), ("fsdp", 3, 1), ("hsdp", 4, 1), ("tp", 4, 2)]
"""A layout, so many ranks on two nodes or one, and how many share their samples."""
CPU = torch.device("cpu")


def settings(layout: str = "fsdp", parallel: int = 1, **more: Any) -> Settings:
    return Settings("run", "/folder", layout=layout, tensor_parallel=parallel, model=SHAPE, **more)


def laid(layout: str, world: int, parallel: int) -> Laid:
    return laid_out(Transformer(SHAPE), settings(layout, parallel), CPU, max(1, world // 2))


class Asked(TorchDispatchMode):
    """What torch is asked to do, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


# -- the norm


def gradients(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Something for each weight, and the whole of it: the same on all ranks."""
    for number, weight in enumerate(model.parameters()):
        weight.grad = weight.detach() * 0.0 + number + 1
        yield weight.grad.full_tensor() if isinstance(weight.grad, DTensor) else weight.grad


@pytest.mark.parametrize(("layout", "world", "parallel"), LAYOUTS)
def test_the_norm_is_that_of_all_gradients_however_they_are_cut(layout: str, world: int, parallel: int) -> None:
    """Each number counts once, whoever holds it; and what is above the limit is cut down to it."""

    def work(_: int) -> list[float]:
        model = laid(layout, world, parallel).model
        expected = math.sqrt(sum(float(whole.double().square().sum()) for whole in gradients(model)))
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
    """To a snapshot and back: a call for each weight holds up who makes it, and each back was waited for."""
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
