"""Linear layers with eight-bit products, for devices that are fast at them.

Weights, sums and everything between the products keep their width. Each tensor is scaled to the full range of eight
bits: e4m3, with more digits, in the forward pass, and e5m2, with more range, for gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from torch import Tensor, nn

from .settings import FLOAT8_MULTIPLE

FORWARD, GRADIENT = torch.float8_e4m3fn, torch.float8_e5m2
SMALLEST = 1e-12
"""Scale of a tensor of zeros."""
SINCE = (8, 9)
"""The compute capability that has it: Ada, and Hopper after that."""


def why_not(device: torch.device) -> str:
    """Why this device cannot; empty when it can."""
    needs = f"an accelerator of compute capability {SINCE[0]}.{SINCE[1]} or later, and this is"
    if device.type != "cuda" or torch.version.cuda is None:
        return f"{needs} {'a processor' if device.type == 'cpu' else 'none of NVIDIA'}"
    has = torch.cuda.get_device_capability(device)
    return "" if has >= SINCE else f"{needs} {torch.cuda.get_device_name(device)} with {has[0]}.{has[1]}"


class Linear(nn.Linear):
    """A linear layer without a bias, whose sizes are multiples of 16."""

    def forward(self, x: Tensor) -> Tensor:
        """Multiply in float8, with rows filled up to a multiple that the device accepts."""
        if torch.is_autocast_enabled(x.device.type):  # autocast knows only torch's own products
            x = x.to(torch.get_autocast_dtype(x.device.type))
        rows = x.flatten(0, -2)
        filled = F.pad(rows, (0, 0, 0, -len(rows) % FLOAT8_MULTIPLE))
        found: Tensor = Product.apply(filled, self.weight)
        return found[: len(rows)].unflatten(0, x.shape[:-1])


class Product(torch.autograd.Function):
    """x [rows, inner] times the transpose of weight [outer, inner]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Return the product. Keep the input in float8 for the backward pass."""
        short, scale = scaled(x, FORWARD)
        # save the full weight: layouts free weights between forward and backward
        ctx.save_for_backward(short, scale, weight)
        ctx.kind = x.dtype
        return multiplied((short, scale), scaled(weight, FORWARD), x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of input and weight."""
        x, scale, weight = ctx.saved_tensors
        gradient, gradient_scale = scaled(gradients[0], GRADIENT)
        short, weight_scale = scaled(weight, FORWARD)
        of_x = multiplied((gradient, gradient_scale), (short.t(), weight_scale), ctx.kind)
        of_weight = multiplied((gradient.t(), gradient_scale), (x.t(), scale), weight.dtype)
        return of_x, of_weight


def scaled(value: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the value in eight bits, and its scale."""
    most = torch.finfo(kind).max
    scale = value.abs().amax().float().clamp(min=SMALLEST) / most
    return (value.float() / scale).clamp(-most, most).to(kind), scale


def multiplied(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], kind: torch.dtype) -> Tensor:
    """Multiply one [rows, inner] by the transpose of other [columns, inner]. Devices read both along `inner`."""
    (left, left_scale), (right, right_scale) = one, other
    rows, columns = left.contiguous(), right.contiguous().t()
    product: Tensor = torch._scaled_mm(rows, columns, scale_a=left_scale, scale_b=right_scale, out_dtype=kind)
    return product
