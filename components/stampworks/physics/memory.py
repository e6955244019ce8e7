"""Memory of one accelerator in training by layout, and the layout that fits.

Numbers are bytes of one rank. States (weights, gradients, optimizer) are exact arithmetic. Activations are an estimate
of the data that is kept for the backward pass, in bfloat16, with attention that keeps no scores. Measured on an H100,
the bundled training of 874 million weights had 47.0 GiB at its peak where this says 40.5: 16 % more, and within its
HEADROOM_SHARE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from stampworks.physics.bounds import Bound, UnknownFactError, figure
from stampworks.physics.checkpoints import OURS, ParameterBytes
from stampworks.physics.transformer import Transformer, known_shape, layer_parameters, widths
from stampworks.text.amounts import many

Zero = Literal[0, 1, 2, 3]
GIB = 2**30
HEADROOM_SHARE = 0.1
"""Part of an accelerator's memory for its context, buffers of collectives, and fragments too small to be reused."""
NARROW = 2
"""Bytes of a number in bfloat16."""
LOGIT = 8
"""Bytes of a score in float32 with its gradient."""
KEPT_OF_PLAIN = 34
"""Bytes per token and unit of a layer's width, without a gate (Korthikanti et al., arXiv 2205.05198, read 2026-11-22:
selective recomputation, which is equivalent to attention without scores)."""
BOUNDARY = NARROW
"""Bytes per token and unit of a layer's width with full recomputation: only a layer's input is kept."""
TENSOR_MAX = 8
"""Maximum number of ranks that split a layer. They communicate four times in it, so that they stay within a node."""
CONTEXT_TOKENS = 8192
"""Minimum number of tokens of a sample on a rank: no fewer were published (Llama 3, arXiv 2407.21783v3, table 4, read
2026-11-22: 131,072 tokens among 16 ranks). Shorter samples need no split."""


@dataclass(frozen=True)
class Layout:
    """The placement of a model on ranks: the number of copies and stages, and the split of layers and samples."""

    name: str
    ranks: int
    zero: Zero
    """States that are sharded among copies: optimizer (1), gradients (2), weights (3)."""
    sharded: int
    """Number of ranks among which they are sharded."""
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    """Ranks with parts of the same samples: each has all weights of its layers, and some of the tokens."""
    whole: bool = False
    """Whether all ranks that split a layer keep the vocabulary and the data between its parts. With parallel sequences
    they split those, too (Korthikanti et al., arXiv 2205.05198, section 4.2, read 2026-11-22)."""

    @property
    def copies(self) -> int:
        """Return the number of rank groups that work on different samples."""
        return self.ranks // (self.tensor * self.pipeline * self.context)


def ddp(ranks: int) -> Layout:
    """Return the layout with a whole copy of the model on each rank."""
    return Layout("ddp", ranks, 0, 1)


def zero(ranks: int, stage: Zero) -> Layout:
    """Return a ZeRO layout; the third stage is fsdp."""
    return Layout("fsdp" if stage == 3 else f"zero-{stage}", ranks, stage, ranks)


def hsdp(ranks: int, node_ranks: int) -> Layout:
    """Return the layout that shards all states within a node and copies them between nodes."""
    return Layout("hsdp", ranks, 3, node_ranks)


def tp(ranks: int, tensor: int, pipeline: int = 1, context: int = 1) -> Layout:
    """Split layers among `tensor` ranks, stages among `pipeline` and samples among `context`; shard states among all
    ranks that hold the same part."""
    if ranks % (tensor * pipeline * context):
        split = f"tensor {tensor} x context {context} x pipeline {pipeline}"
        raise ValueError(f"{ranks} ranks do not divide by {split}: {ranks / (tensor * pipeline * context):.4g}")
    degrees = {"tp": tensor, "cp": context, "pp": pipeline}
    name = ", ".join(f"{kind} {degree}" for kind, degree in degrees.items() if degree > 1)
    return Layout(name, ranks, 3, ranks // (tensor * pipeline), tensor, pipeline, context)


def states(parameters: int, layout: Layout, recipe: ParameterBytes = OURS) -> Bound:
    """Return the bytes of weights, gradients and optimizer, each sharded as the layout says."""
    part = parameters / (layout.tensor * layout.pipeline)
    cuts = [layout.sharded if layout.zero >= stage else 1 for stage in (3, 2, 1)]
    sizes = (recipe.weights, recipe.gradients, recipe.optimizer)
    value = sum(part * size / cut for size, cut in zip(sizes, cuts, strict=True))
    terms = " + ".join(f"{size}/{cut}" if cut > 1 else f"{size}" for size, cut in zip(sizes, cuts, strict=True))
    split = f" / {layout.tensor * layout.pipeline}" if part != parameters else ""
    return Bound(value, f"{many(parameters)} parameters{split} x ({terms}) bytes of weights, gradients, optimizer")


def gathered(model: Transformer, layout: Layout) -> Bound:
    """Return the bytes of temporary bfloat16 weights of the layers at work, besides the states."""
    if layout.zero < 3 or layout.sharded == 1:
        cast = model.parameters / (layout.tensor * layout.pipeline)
        return Bound(NARROW * cast, f"{many(cast)} parameters once more in bfloat16")
    [hidden, vocabulary] = known_shape(model, "hidden", "vocabulary")
    known_shape(model, "heads", "kv_heads", "ffn")
    layer = (layer_parameters(model, model.experts) or 0) / layout.tensor
    # the embedding and the last layer are gathered together and stay: they are used first and last
    ends = (1 if model.tied else 2) * vocabulary * hidden / _alike(layout)
    value = NARROW * (2 * layer + ends)
    return Bound(value, f"two layers of {many(layer)} parameters and {many(ends)} of vocabulary, gathered in bfloat16")


def activations(model: Transformer, layout: Layout, samples: int, recomputed: bool) -> Bound:
    """Return the bytes of `samples` samples that the backward pass needs. `recomputed`: inputs of all layers, and one
    whole layer."""
    layers, sequence = known_shape(model, "layers", "sequence")
    tokens = samples * ceil(sequence / layout.context)
    mine = ceil(layers / layout.pipeline)
    # the first stage of a pipeline works on as many batches as there are stages
    flying = layout.pipeline
    whole, boundary = _kept_of_token(model, layout)
    per_layer = boundary if recomputed else whole
    scores = LOGIT * known_shape(model, "vocabulary")[0] / _alike(layout) if layout.pipeline == 1 else 0
    value = tokens * (flying * mine * per_layer + (whole if recomputed else 0) + scores)
    again = f" + {figure(whole)} of the one that is computed again" if recomputed else ""
    stages = f"{flying} batches x " if flying > 1 else ""
    last = f" + {figure(scores)} of scores" if scores else ""
    parts = f" / {layout.context}" if layout.context > 1 else ""
    return Bound(
        value,
        f"{samples} x {sequence}{parts} tokens x ({stages}{mine} layers x {figure(per_layer)} bytes{again}{last})",
    )


def _kept_of_token(model: Transformer, layout: Layout) -> tuple[float, float]:
    """Return the bytes per layer and token: everything, and the input alone."""
    [hidden] = known_shape(model, "hidden")
    boundary = BOUNDARY * hidden / _alike(layout)
    if not model.gated:
        if model.experts > 1:
            raise UnknownFactError("the memory of experts without a gate is not known")
        if not layout.whole:
            return hidden * KEPT_OF_PLAIN / layout.tensor, boundary
        # inputs of norms and layers are on all ranks that split a layer: 10 of the 34 bytes
        return hidden * (10 + (KEPT_OF_PLAIN - 10) / layout.tensor), boundary
    [ffn], wide = known_shape(model, "ffn"), widths(model)
    # data sent to each expert, and its results
    sent = 2 * hidden * model.experts_per_token if model.experts > 1 else 0
    if layout.tensor > 1 and not layout.whole:
        # Parallel sequences come with fused kernels: they keep the inputs of norms, products and attention, and the
        # inputs of the gate.
        attention = 2 * wide.latent + wide.queries + wide.keys + wide.values + wide.given
        fused = 4 * hidden + attention + 3 * ffn * model.experts_per_token
        return NARROW * (fused + sent) / layout.tensor, boundary
    # Kept data: two inputs of norms and their outputs, and the same of latent heads; queries and keys before and after
    # rotation, values, outputs of attention. For each expert: gate, up, the gate's function, and the product of both.
    split = 2 * wide.queries + 2 * wide.keys + wide.values + wide.given + 4 * ffn * model.experts_per_token
    return NARROW * (4 * hidden + 2 * wide.latent + sent + split / layout.tensor), boundary


def _alike(layout: Layout) -> int:
    """Return the number of ranks among which data between the parts of a layer is split."""
    return 1 if layout.whole else layout.tensor


@dataclass(frozen=True)
class Need:
    """The needs of one rank; None when the model's shape does not determine them."""

    layout: Layout
    states: Bound
    gathered: Bound | None
    activations: Bound | None
    recomputed: bool

    @property
    def least_bytes(self) -> float:
        """Return the sum of the known needs, which is a lower bound."""
        return sum(each.value for each in (self.states, self.gathered, self.activations) if each)

    @property
    def said(self) -> str:
        """The layout in words, for messages."""
        return self.layout.name + (", with activations computed again" if self.recomputed else "")

    @property
    def whole(self) -> bool:
        """Whether no part of the sum is unknown."""
        return self.gathered is not None and self.activations is not None

    @property
    def why(self) -> str:
        """The derivation: each part with its size, and the parts that are unknown."""
        parts = [("states", self.states), ("at work", self.gathered), ("activations", self.activations)]
        said = "; ".join(f"{name} {figure(each.value / GIB)} GiB: {each.why}" for name, each in parts if each)
        missing = [name for name, each in parts if each is None]
        return said + (f"; {' and '.join(missing)} unknown, for the model's shape is not said" if missing else "")


def need(
    model: Transformer, layout: Layout, samples: int, recipe: ParameterBytes = OURS, recomputed: bool = False
) -> Need:
    """Return the needs of a rank that works on `samples` samples at once."""
    return Need(
        layout,
        states(model.parameters, layout, recipe),
        _or_unknown(lambda: gathered(model, layout)),
        _or_unknown(lambda: activations(model, layout, samples, recomputed)),
        recomputed,
    )


def fits(needed: Need, memory_gib: float) -> bool | None:
    """Return whether the needs fit with headroom; None when unknown."""
    usable = (1 - HEADROOM_SHARE) * memory_gib * GIB
    if needed.least_bytes > usable:
        return False
    return True if needed.whole else None


def plainest(
    ranks: int, node_ranks: int, heads: int | None = None, layers: int | None = None, sequence: int | None = None
) -> Iterator[Layout]:
    """Yield layouts from the plainest to the most complex: each splits more, and communicates more between ranks.

    Samples are split only when they are so long that one may not fit.
    """
    yield ddp(ranks)
    if ranks > 1:
        yield from (zero(ranks, stage) for stage in (1, 2, 3))
    tensors = [
        degree
        for degree in (2, 4, TENSOR_MAX)
        if degree <= node_ranks and ranks % degree == 0 and (heads is None or heads % degree == 0)
    ]
    yield from (tp(ranks, degree) for degree in tensors)
    most = tensors[-1] if tensors else 1
    contexts = [2**power for power in range(1, 11) if 2**power * CONTEXT_TOKENS <= (sequence or 0)]
    yield from (tp(ranks, 1, 1, part) for part in contexts if ranks % part == 0)
    if tensors:
        yield from (tp(ranks, most, 1, part) for part in contexts if ranks % (most * part) == 0)
    stages = [each for each in (2, 4, 8, 16, 32) if each <= (layers or each)]
    for part in (1, *contexts):
        yield from (tp(ranks, most, each, part) for each in stages if ranks % (most * each * part) == 0)


def bundled(layouts: Iterable[Layout]) -> Iterator[Layout]:
    """Yield the layouts that the bundled training supports, in its form; it never recomputes activations."""
    for each in layouts:
        if each.pipeline == each.context == 1 and each.zero in (0, 3):
            yield each if each.tensor == 1 else whole(each)


def whole(layout: Layout) -> Layout:
    """Return the layout without parallel sequences."""
    return replace(layout, name=f"{layout.name} (sequences whole)", whole=True)


def suggested(
    model: Transformer,
    layouts: Sequence[Layout],
    memory_gib: float,
    batch: int | None = None,
    recipe: ParameterBytes = OURS,
) -> Need | None:
    """Return the first layout that fits with one sample at once, preferably without recomputation.

    Layouts in which a step of `batch` samples has work for each copy come before those that need more samples. Return
    None if nothing fits, or if it is unknown.
    """
    busy = [layout for layout in layouts if batch is not None and layout.copies <= batch]
    for some in (busy, layouts):
        for recomputed in (False, True):
            for layout in some:
                needed = need(model, layout, 1, recipe, recomputed)
                if fits(needed, memory_gib):
                    return needed
    return None


def _or_unknown(bound: Callable[[], Bound]) -> Bound | None:
    try:
        return bound()
    except UnknownFactError:
        return None
