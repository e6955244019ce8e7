"""The model to train, and the defaults of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stampworks.plan.marks import UNORDERED

Layout = Literal["ddp", "fsdp", "hsdp", "tp"]
Precision = Literal["auto", "float32", "bfloat16", "float8"]
TrackerKind = Literal["files", "mlflow", "wandb"]


@dataclass(frozen=True)
class Tracker:
    """The service to which a training run also reports its progress."""

    kind: TrackerKind
    url: str
    experiment: str


@dataclass(frozen=True)
class Checkpoints:
    """The place and number of a run's checkpoints."""

    directory: str
    """Parent of a directory for each run; empty: the run's folder."""
    keep: int


@dataclass(frozen=True)
class Model:
    """The declared model. None: not declared. Without parameters, no model is declared."""

    parameters: int | None
    tokens: int | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    head: int | None
    """Width of the query and key of one head; None: hidden divided by heads."""
    value_head: int | None
    kv_rank: int | None
    """Rank of latent attention; None: another kind of attention."""
    query_rank: int | None
    rotary: int | None
    ffn: int | None
    vocabulary: int | None
    sequence: int | None
    gated: bool
    tied: bool
    experts: int | None
    """Experts per layer; None: no experts."""
    experts_per_token: int | None
    dense_layers: int | None
    """Number of the first layers, which have no experts."""
    dense_ffn: int | None
    active: int | None
    """Active parameters of a token; None: all."""


@dataclass(frozen=True)
class Training:
    """Defaults of a training run."""

    layout: Layout
    tensor_parallel: int
    precision: Precision
    steps: int
    batch: int
    tracker: Tracker
    checkpoints: Checkpoints
    node_ranks: int
    """Ranks on each node; 0: one for each accelerator, or a single one without any."""
    ranks: tuple[tuple[str, int], ...] = field(metadata=UNORDERED)
    """Derived ranks per node of each pool."""
    peak_tflops: tuple[tuple[str, float], ...] = field(metadata=UNORDERED)
    """Peak of one accelerator at that precision, according to its maker. A pool is absent when the figure is unknown or
    the pool is simulated."""
    model: Model
