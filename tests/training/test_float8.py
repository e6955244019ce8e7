"""Products of eight bits: close to those of 32, and good enough to train. A CPU has slow ones, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from training import float8
from training.model import Transformer
from training.settings import Model, Settings

from tests.training.runs import running

SHAPE = Model(layers=2, width=32, heads=2, length=24)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def apart(found: Tensor, expected: Tensor) -> float:
    return float((found.detach().float() - expected.detach().float()).norm() / expected.detach().float().norm())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_products_and_gradients_are_near_those_of_32_bits(size: float, kind: torch.dtype, device: str) -> None:
    """Numbers of any size, and any number of rows, are covered."""
    torch.manual_seed(0)
    plain = nn.Linear(48, 80, bias=False, device=device)
    short = float8.Linear(48, 80, bias=False, device=device)
    short.load_state_dict(plain.state_dict())
    x = (torch.randn(3, 11, 48, device=device) * size).to(kind)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    gradient = torch.randn(3, 11, 80, device=device) / size
    found, expected = short(inputs[0]), plain(inputs[1].float())
    assert found.dtype == kind
    assert found.shape == expected.shape
    found.backward(gradient.to(kind))
    expected.backward(gradient)
    assert 0 < apart(found, expected) < 0.05
    assert 0 < apart(inputs[0].grad, inputs[1].grad) < 0.1
    assert 0 < apart(short.weight.grad, plain.weight.grad) < 0.1


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_makes_them_as_wide_as_it_makes_others(device: str) -> None:
    """ddp uses autocast; weights and gradients keep their type."""
    layer = float8.Linear(48, 80, bias=False, device=device)
    x = torch.randn(3, 48, device=device, requires_grad=True)
    with torch.autocast(device, torch.bfloat16):
        found = layer(x)
    assert found.dtype == torch.bfloat16
    found.float().sum().backward()
    assert (layer.weight.grad.dtype, x.grad.dtype) == (torch.float32, torch.float32)
    assert layer(x).dtype == torch.float32


def test_zeros_and_nans_are_preserved() -> None:
    layer = float8.Linear(16, 16, bias=False)
    assert not layer(torch.zeros(2, 16)).any()
    assert layer(torch.full((2, 16), float("nan"))).isnan().all()
    assert layer(torch.full((2, 16), float("inf"))).isnan().any()


def losses(linear: type[nn.Linear], steps: int = 30) -> list[float]:
    torch.manual_seed(0)
    model = Transformer(SHAPE, linear)
    model.begin(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text = torch.tensor(list(("to be or not to be that is the question " * 20).encode()))
    found = []
    for step in range(steps):
        starts = [(step * 37 + row * 101) % (len(text) - SHAPE.length - 1) for row in range(4)]
        tokens = torch.stack([text[start : start + SHAPE.length + 1] for start in starts])
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss))
    return found


@pytest.mark.long
def test_a_model_learns_with_them_as_it_does_without() -> None:
    short, plain = losses(float8.Linear), losses(nn.Linear)
    assert short != plain
    assert short[-1] < 0.8 * short[0]
    assert short[-1] == pytest.approx(plain[-1], rel=0.15)


def settings(**more: object) -> Settings:
    return Settings(name="it", folder="/tmp/it", precision="float8", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: settings(layout="tp"), "precision float8 scales whole tensors, and layout tp cuts them: ddp, fsdp or"),
        (
            lambda: settings(model=dataclasses.replace(SHAPE, width=40)),
            r"precision float8 multiplies 16 numbers at once, and model.width is 40 / 16 = 2.5",
        ),
    ],
)
def test_refuses_unsuitable_settings(make: Callable[[], Settings], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


@pytest.mark.long
def test_a_run_says_that_a_processor_has_none(tmp_path: Path) -> None:
    with running(tmp_path / "it", ranks=1, steps=2, precision="float8") as run:
        [code], said = run.end()
    assert code not in (0, 75)
    assert "precision float8 needs an accelerator of compute capability 8.9 or later, and this is a processor" in said
    assert "no accelerator" not in said
    assert run.last()["why"] == "failed"
