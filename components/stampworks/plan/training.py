"""What is trained, and what a run takes where nobody says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import UNORDERED

Layout = Literal["ddp", "fsdp", "hsdp", "tp"]
Precision = Literal["auto", "float32", "bfloat16", "float8"]
TrackerKind = Literal["files", "mlflow", "wandb"]


@dataclass(frozen=True)
class Tracker:
    """Who else is told how a training run goes."""

    kind: TrackerKind
    url: str
    experiment: str


@dataclass(frozen=True)
class Checkpoints:
    directory: str
    """Below it each run has a directory of its own; empty: in the run's folder."""
    keep: int


@dataclass(frozen=True)
class Model:
    """What is to be trained; None: nobody said it. Without parameters no model is declared."""

    parameters: int | None
    tokens: int | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    head: int | None
    """How wide a query and a key of one head are; None: as a layer divides by its heads."""
    value_head: int | None
    kv_rank: int | None
    """Of latent attention; None: it has another kind."""
    query_rank: int | None
    rotary: int | None
    ffn: int | None
    vocabulary: int | None
    sequence: int | None
    gated: bool
    tied: bool
    experts: int | None
    """Of each layer; None: it has none."""
    experts_per_token: int | None
    dense_layers: int | None
    """The first ones, without experts."""
    dense_ffn: int | None
    active: int | None
    """Parameters that a token passes through; None: all of them."""


@dataclass(frozen=True)
class Training:
    """What a training run takes where nobody says it."""

    layout: Layout
    tensor_parallel: int
    precision: Precision
    steps: int
    batch: int
    tracker: Tracker
    checkpoints: Checkpoints
    node_ranks: int
    """How many ranks a node has; 0: as many as it has accelerators, or one."""
    ranks: tuple[tuple[str, int], ...] = field(metadata=UNORDERED)
    """The same of each pool, worked out."""
    peak_tflops: tuple[tuple[str, float], ...] = field(metadata=UNORDERED)
    """What one accelerator reaches in that precision as its maker says; a pool that is not there: not known, or
    simulated."""
    model: Model
