"""Model to train, and defaults of training runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stampworks.declaration.models.section import IN_PLACE, Section
from stampworks.declaration.values import Count, Directory, Experiment, Url


class Tracker(Section):
    """Tracker that records the progress of runs. Its credentials stand in the environment of the job."""

    kind: Literal["files", "mlflow", "wandb"] = Field(
        default="files",
        description="Tracker of the values: a file in the run's folder, MLflow, or Weights & Biases.",
        json_schema_extra=IN_PLACE,
    )
    url: Url = Field(default="", description="URL of its server; MLflow needs it.", json_schema_extra=IN_PLACE)
    experiment: Experiment = Field(
        default="stampworks",
        description="The tracker's name for all runs of this cluster together.",
        json_schema_extra=IN_PLACE,
    )


class Checkpoints(Section):
    """The place and number of checkpoints."""

    directory: Directory = Field(
        default="",
        description="A directory on a mounted storage, below which each run has its own; without it, the run's folder.",
        json_schema_extra=IN_PLACE,
    )
    keep: int = Field(
        default=3, ge=1, le=1000, description="Number of newest checkpoints to keep.", json_schema_extra=IN_PLACE
    )


class Model(Section):
    """Model to train: a decoder-only transformer. Missing values are derived, or unknown."""

    parameters: Count = Field(
        default=0,
        description="Number of parameters, as in 8B; 0 to count those of its shape.",
        json_schema_extra=IN_PLACE,
    )
    tokens: Count = Field(
        default=0,
        description="Number of tokens in the training, as in 15T; 0 for the number that the steps process.",
        json_schema_extra=IN_PLACE,
    )
    layers: int = Field(
        default=0, ge=0, le=10_000, description="Number of layers; 0: unknown.", json_schema_extra=IN_PLACE
    )
    hidden: int = Field(
        default=0, ge=0, le=10_000_000, description="Width of a layer; 0: unknown.", json_schema_extra=IN_PLACE
    )
    heads: int = Field(
        default=0, ge=0, le=100_000, description="Number of attention heads; 0: unknown.", json_schema_extra=IN_PLACE
    )
    kv_heads: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Number of heads of keys and values; 0: as many as attention.",
        json_schema_extra=IN_PLACE,
    )
    head: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Width of a query and a key of one head; 0: the width of a layer divided by its heads.",
        json_schema_extra=IN_PLACE,
    )
    value_head: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Width of a value of one head; 0: that of a key.",
        json_schema_extra=IN_PLACE,
    )
    kv_rank: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Rank of latent attention's keys and values; 0: it computes them from the input.",
        json_schema_extra=IN_PLACE,
    )
    query_rank: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Rank of latent attention's queries; 0: it computes them from the input.",
        json_schema_extra=IN_PLACE,
    )
    rotary: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Part of a key that all heads of latent attention share; head counts it, too.",
        json_schema_extra=IN_PLACE,
    )
    ffn: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Inner width of a feed-forward layer; 0: 8/3 of the width with a gate, 4 times without.",
        json_schema_extra=IN_PLACE,
    )
    vocabulary: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Size of the vocabulary in tokens; 0: unknown.",
        json_schema_extra=IN_PLACE,
    )
    sequence: int = Field(
        default=0, ge=0, le=100_000_000, description="Tokens of a sample; 0: unknown.", json_schema_extra=IN_PLACE
    )
    gated: bool = Field(
        default=True, description="Whether its feed-forward layers have a gate.", json_schema_extra=IN_PLACE
    )
    tied: bool = Field(
        default=False,
        description="Whether the last layer shares the weights of the first one.",
        json_schema_extra=IN_PLACE,
    )
    experts: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Number of experts in each layer, including shared ones; 0: none.",
        json_schema_extra=IN_PLACE,
    )
    experts_per_token: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Number of experts that a token passes through.",
        json_schema_extra=IN_PLACE,
    )
    dense_layers: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Number of first layers that have a feed-forward layer for all tokens instead of experts.",
        json_schema_extra=IN_PLACE,
    )
    dense_ffn: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="Inner width of that feed-forward layer.",
        json_schema_extra=IN_PLACE,
    )
    active: Count = Field(
        default=0,
        description="Number of parameters that a token passes through, as in 37B; 0 for all, or those of its experts.",
        json_schema_extra=IN_PLACE,
    )


class Training(Section):
    """Defaults of `stampworks submit training`; `--set` changes them for one run."""

    layout: Literal["ddp", "fsdp", "hsdp", "tp"] = Field(
        default="fsdp",
        description="Layout of the model on ranks: copied, sharded, sharded within a node, or split in each layer.",
        json_schema_extra=IN_PLACE,
    )
    tensor_parallel: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Number of ranks among which the layout tp splits each layer.",
        json_schema_extra=IN_PLACE,
    )
    precision: Literal["auto", "float32", "bfloat16", "float8"] = Field(
        default="auto",
        description="Number format of most of the arithmetic; auto: bfloat16 where an accelerator has it.",
        json_schema_extra=IN_PLACE,
    )
    ranks: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Number of ranks per node; 0 for one per accelerator, or one without accelerators.",
        json_schema_extra=IN_PLACE,
    )
    steps: int = Field(
        default=100, ge=1, le=100_000_000, description="Number of steps of a run.", json_schema_extra=IN_PLACE
    )
    batch: int = Field(
        default=16,
        ge=1,
        le=100_000_000,
        description="Samples of a step over all ranks; a declared model needs at least one per copy.",
        json_schema_extra=IN_PLACE,
    )
    tracker: Tracker = Field(
        default=Tracker(),
        description="Tracker that records the progress of runs, beside their own files.",
        json_schema_extra=IN_PLACE,
    )
    checkpoints: Checkpoints = Field(
        default=Checkpoints(), description="Place of checkpoints, and how many are kept.", json_schema_extra=IN_PLACE
    )
    model: Model = Field(
        default=Model(),
        description="Model that the cluster is to train: with it, the plan says whether it fits, and how long "
        "training takes.",
        json_schema_extra=IN_PLACE,
    )
