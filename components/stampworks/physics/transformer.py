"""The size of a decoder-only transformer, and the cost of training it on a token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from stampworks.physics.bounds import Bound, UnknownFactError
from stampworks.text.amounts import many

WIDENING = 8 / 3
"""Width factor of a gated layer: its three matrices have as many weights as two of four times the width."""
ROUNDED_TO = 32
TRAINED = 6
"""FLOPs per weight and token: a multiplication and an addition, once forward and twice backward."""
ATTENDED = 12
"""FLOPs per unit of attention width and previous token: one comparison, and the addition of its value."""


@dataclass(frozen=True)
class Transformer:
    """A model; None means not given, and no default replaces it."""

    parameters: int
    """All parameters, including those of inactive experts."""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    ffn: int | None = None
    """Inner width of a feed-forward layer, or of each of its experts."""
    vocabulary: int | None = None
    sequence: int | None = None
    """Tokens of a sample."""
    gated: bool = True
    """Whether a feed-forward layer has a third matrix, which gates the others."""
    tied: bool = False
    """Whether the last layer shares the weights of the first one."""
    experts: int = 1
    """Experts of each layer, including one that all tokens pass through."""
    experts_per_token: int = 1
    active: int | None = None
    """Active parameters of a token; None: all."""
    head: int | None = None
    """Width of the query and key of one head; None: all queries together are as wide as a layer."""
    value_head: int | None = None
    """Width of the value of one head; None: as wide as a key."""
    kv_rank: int | None = None
    """Width of the latent vector from which the keys and values of all heads are made, in latent attention."""
    query_rank: int | None = None
    """Width of the latent vector of queries; None: queries are made from the layer's input."""
    rotary: int | None = None
    """Width of the part of each latent head's key that all heads share, because it is rotated by the token's
    position."""
    dense_layers: int | None = None
    """Number of the first layers, which have one feed-forward layer for all tokens instead of experts."""
    dense_ffn: int | None = None
    """Inner width of that feed-forward layer."""

    @property
    def used(self) -> int:
        """Active parameters of a token; all of them without experts."""
        return self.active or self.parameters

    @property
    def attended(self) -> int | None:
        """Return the average width of attention's queries and outputs; the width of a layer when the heads are
        unknown."""
        if self.hidden is None or self.heads is None:
            return self.hidden
        head = self.head or self.hidden // self.heads
        return self.heads * (head + (self.value_head or head)) // 2


@dataclass(frozen=True)
class Widths:
    """Widths of the operands of attention, over all heads."""

    queries: int
    keys: int
    values: int
    given: int
    """Width of the output: a value for each head of queries."""
    latent: int
    """Width of the latent vectors from which heads are made."""


def widths(shape: Transformer) -> Widths:
    """Return the widths. In latent attention each head has its own keys and values. Raises UnknownFactError when facts
    are missing."""
    hidden, heads, kv_heads = known_shape(shape, "hidden", "heads", "kv_heads")
    head = shape.head or hidden // heads
    value_head, kv_heads = shape.value_head or head, heads if shape.kv_rank else kv_heads
    latent = (shape.query_rank or 0) + (shape.kv_rank or 0)
    return Widths(heads * head, kv_heads * head, kv_heads * value_head, heads * value_head, latent)


def usual_ffn(hidden: int, gated: bool) -> int:
    """Return the default width of a feed-forward layer."""
    return ROUNDED_TO * ceil(hidden * WIDENING / ROUNDED_TO) if gated else 4 * hidden


def counted(shape: Transformer, experts: int | None = None) -> Bound | None:
    """Count the parameters of a shape with this number of experts, or all; None when the shape is incomplete."""
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
    """Count attention, feed-forward matrices of this number of experts, their router, and two norms."""
    if shape.hidden is None or shape.heads is None or shape.kv_heads is None or shape.ffn is None:
        return None
    attention = _attention_parameters(shape, shape.hidden, shape.heads)
    router = shape.experts * shape.hidden if shape.experts > 1 else 0
    return attention + experts * (3 if shape.gated else 2) * shape.hidden * shape.ffn + router + 2 * shape.hidden


def _attention_parameters(shape: Transformer, hidden: int, heads: int) -> int:
    """Count queries, keys, values and output. Latent ones are made in two steps, with a norm between them."""
    wide, narrow = widths(shape), shape.query_rank
    queries = hidden * narrow + narrow + narrow * wide.queries if narrow else hidden * wide.queries
    output = wide.given * hidden
    if not shape.kv_rank:
        return queries + hidden * (wide.keys + wide.values) + output
    shared = shape.rotary or 0
    apart = wide.keys - heads * shared + wide.values
    return queries + hidden * (shape.kv_rank + shared) + shape.kv_rank + shape.kv_rank * apart + output


def flops_per_token(model: Transformer) -> Bound:
    """Return 6 FLOPs per multiplied weight, plus 12 per layer, unit of attention width and visible token.

    A token multiplies only with the experts that it passes through. Looking up the input embedding multiplies nothing.
    Attention is counted in full, even if it only looks back.
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
    """Return these facts of a shape; raise an error that names missing ones."""
    if missing := [name for name in fields if getattr(model, name) is None]:
        raise UnknownFactError(f"the model's {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not said")
    return tuple(getattr(model, name) for name in fields)
