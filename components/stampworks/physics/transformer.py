"""What a decoder-only transformer weighs, and what a token of it costs to train."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from stampworks.physics.bounds import Bound, UnknownFactError
from stampworks.text.amounts import many

WIDENING = 8 / 3
"""Of a gated layer: with three matrices as many weights as two of four times the width."""
ROUNDED_TO = 32
TRAINED = 6
"""FLOPs of a weight and a token: a multiplication and an addition, once forward and twice backward."""
ATTENDED = 12
"""The same of the width of attention and a token before: it is compared with, and its value is added."""


@dataclass(frozen=True)
class Transformer:
    """A model; None is what nobody said, and nothing is put in its place."""

    parameters: int
    """All of them, also those of experts that a token passes by."""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    ffn: int | None = None
    """Inside a feed-forward layer, or inside each of its experts."""
    vocabulary: int | None = None
    sequence: int | None = None
    """Tokens of a sample."""
    gated: bool = True
    """Whether a feed-forward layer has a third matrix, which gates the others."""
    tied: bool = False
    """Whether the last layer's weights are the first one's."""
    experts: int = 1
    """Of each layer. One that all tokens pass through is one of them."""
    experts_per_token: int = 1
    active: int | None = None
    """Parameters that a token passes through; None: all of them."""
    head: int | None = None
    """How wide a query and a key of one head are; None: all queries together are as wide as a layer."""
    value_head: int | None = None
    """The same of a value; None: as wide as a key."""
    kv_rank: int | None = None
    """Of latent attention: how wide that is of which the keys and values of all heads are made."""
    query_rank: int | None = None
    """The same of queries; None: they are made of the layer's input."""
    rotary: int | None = None
    """The part of each latent head's key that all heads share, for it is turned by the token's place."""
    dense_layers: int | None = None
    """The first ones, which have one feed-forward layer for all tokens instead of experts."""
    dense_ffn: int | None = None
    """Inside of that one."""

    @property
    def used(self) -> int:
        return self.active or self.parameters

    @property
    def attended(self) -> int | None:
        """How wide attention is, queries and what it gives on average: as a layer, where nobody says more."""
        if self.hidden is None or self.heads is None:
            return self.hidden
        head = self.head or self.hidden // self.heads
        return self.heads * (head + (self.value_head or head)) // 2


@dataclass(frozen=True)
class Widths:
    """Of what attention works on, all heads together."""

    queries: int
    keys: int
    values: int
    given: int
    """What it gives: a value for each head of queries."""
    latent: int
    """What the heads of latent attention are made of."""


def widths(shape: Transformer) -> Widths:
    """In latent attention each head has its own keys and values. Raises UnknownFactError where nobody said enough."""
    hidden, heads, kv_heads = known_shape(shape, "hidden", "heads", "kv_heads")
    head = shape.head or hidden // heads
    value_head, kv_heads = shape.value_head or head, heads if shape.kv_rank else kv_heads
    latent = (shape.query_rank or 0) + (shape.kv_rank or 0)
    return Widths(heads * head, kv_heads * head, kv_heads * value_head, heads * value_head, latent)


def usual_ffn(hidden: int, gated: bool) -> int:
    """Where nobody says how wide a feed-forward layer is."""
    return ROUNDED_TO * ceil(hidden * WIDENING / ROUNDED_TO) if gated else 4 * hidden


def counted(shape: Transformer, experts: int | None = None) -> Bound | None:
    """The parameters that a shape has, as far as it is said, with so many of its experts, or all."""
    layer = layer_parameters(shape, shape.experts if experts is None else experts)
    if layer is None or shape.layers is None or shape.vocabulary is None or shape.hidden is None:
        return None
    dense = shape.dense_layers or 0
    wide = layer_parameters(replace(shape, experts=1, ffn=shape.dense_ffn or shape.ffn), 1) or 0
    tables = 1 if shape.tied else 2
    total = (shape.layers - dense) * layer + dense * wide + tables * shape.vocabulary * shape.hidden + shape.hidden
    layers = f"{shape.layers - dense} layers x {layer}" + (f" + {dense} without experts x {wide}" if dense else "")
    table = f"{tables} x {shape.vocabulary} x {shape.hidden} of vocabulary" + (", tied" if shape.tied else "")
    return Bound(total, f"{layers} + {table} + {shape.hidden} of the last norm = {total}")


def layer_parameters(shape: Transformer, experts: int) -> int | None:
    """Attention, feed-forward matrices of so many experts, their router, two norms."""
    if shape.hidden is None or shape.heads is None or shape.kv_heads is None or shape.ffn is None:
        return None
    attention = _attention_parameters(shape, shape.hidden, shape.heads)
    router = shape.experts * shape.hidden if shape.experts > 1 else 0
    return attention + experts * (3 if shape.gated else 2) * shape.hidden * shape.ffn + router + 2 * shape.hidden


def _attention_parameters(shape: Transformer, hidden: int, heads: int) -> int:
    """Queries, keys, values, output; latent ones in two steps, with a norm between them."""
    wide, narrow = widths(shape), shape.query_rank
    queries = hidden * narrow + narrow + narrow * wide.queries if narrow else hidden * wide.queries
    output = wide.given * hidden
    if not shape.kv_rank:
        return queries + hidden * (wide.keys + wide.values) + output
    shared = shape.rotary or 0
    apart = wide.keys - heads * shared + wide.values
    return queries + hidden * (shape.kv_rank + shared) + shape.kv_rank + shape.kv_rank * apart + output


def flops_per_token(model: Transformer) -> Bound:
    """6 FLOPs of each weight that multiplies, and 12 of the width of each layer's attention and token that it sees.

    A token multiplies with the experts that it passes through, and with no others. Looking up the input embedding
    multiplies nothing; attention is counted in full, also where it looks back only.
    """
    which = f"{many(model.used)} active of " if model.used < model.parameters else ""
    weights, why = model.used, f"6 x {which}{many(model.parameters)} parameters"
    if model.vocabulary is not None and model.hidden is not None and not model.tied:
        embedding = model.vocabulary * model.hidden
        weights -= embedding
        why = f"6 x ({which}{many(model.parameters)} parameters - {many(embedding)} of the input embedding)"
    if model.layers is None or model.attended is None or model.sequence is None:
        return Bound(TRAINED * weights, f"{why}; attention is left out, for the model's shape is not known")
    attention = f"12 x {model.layers} layers x {model.attended} x {model.sequence} tokens of attention, counted in full"
    value = TRAINED * weights + ATTENDED * model.layers * model.attended * model.sequence
    return Bound(value, f"{why} + {attention}")


def known_shape(model: Transformer, *fields: str) -> tuple[int, ...]:
    """These facts of a shape; the error names those that nobody said."""
    if missing := [name for name in fields if getattr(model, name) is None]:
        raise UnknownFactError(f"the model's {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not said")
    return tuple(getattr(model, name) for name in fields)
