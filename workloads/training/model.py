"""A decoder-only transformer: rotary positions, root-mean-square norms, gated feed-forward layers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from stampworks_train.part import local, same_part
from torch import Tensor, nn

from . import settings

WIDENING = 8 / 3
"""Width of a gated layer: its three matrices have as many weights as two of four times the width."""


class Transformer(nn.Module):
    """The whole model: embedding, blocks and output."""

    def __init__(self, shape: settings.Model, linear: type[nn.Linear] = nn.Linear) -> None:
        """`linear`: type of the blocks' layers."""
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape, linear) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=1e-5)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return for each position the scores of all tokens that may follow."""
        turns = rotations(tokens.shape[1], self.shape.width // self.shape.heads, tokens.device)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, turns)
        scores: Tensor = self.head(self.norm(x))
        return scores

    def begin(self, seed: int) -> None:
        """Set the same first weights for any layout: the CPU draws all, and each rank takes its part."""
        source = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            here = local(weight.detach())
            if weight.dim() < 2:
                here.fill_(1.0)
                continue
            deep = math.sqrt(2 * self.shape.layers) if name.endswith(("out.weight", "down.weight")) else 1.0
            whole = torch.randn(weight.shape, generator=source) * (0.02 / deep)
            here.copy_(same_part(whole, weight))


class Block(nn.Module):
    """A layer: attention and feed-forward, each with a norm before and a residual around it."""

    def __init__(self, shape: settings.Model, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.width, eps=1e-5)
        self.attention = Attention(shape.width, shape.heads, linear)
        self.feed_norm = nn.RMSNorm(shape.width, eps=1e-5)
        self.feed = Feed(shape.width, linear)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return the layer's output; `turns` rotates queries and keys by position."""
        x = x + self.attention(self.attention_norm(x), turns)
        fed: Tensor = x + self.feed(self.feed_norm(x))
        return fed


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.size = width // heads
        self.query = linear(width, width, bias=False)
        self.key = linear(width, width, bias=False)
        self.value = linear(width, width, bias=False)
        self.out = linear(width, width, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """Compute the heads that are here: with tensor parallelism a part of them."""
        samples, length, _ = x.shape
        query, key, value = (
            way(x).view(samples, length, -1, self.size).transpose(1, 2) for way in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(turned(query, turns), turned(key, turns), value, is_causal=True)
        out: Tensor = self.out(seen.transpose(1, 2).reshape(samples, length, -1))
        return out


class Feed(nn.Module):
    """A gated feed-forward layer, with an inner width that is a multiple of 32."""

    def __init__(self, width: int, linear: type[nn.Linear]) -> None:
        super().__init__()
        inner = 32 * math.ceil(width * WIDENING / 32)
        self.gate = linear(width, inner, bias=False)
        self.up = linear(width, inner, bias=False)
        self.down = linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output without the residual."""
        down: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return down


def rotations(length: int, size: int, device: torch.device) -> Tensor:
    """Cosine and sine of each position's angles: [2, length, size / 2]."""
    speeds = 10000.0 ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), speeds)
    return torch.stack((angles.cos(), angles.sin()))


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Return pairs of numbers of a head, rotated by the angle of their position."""
    cos, sin = turns.to(x.dtype)
    one, other = x.chunk(2, dim=-1)
    return torch.cat((one * cos - other * sin, one * sin + other * cos), dim=-1)
