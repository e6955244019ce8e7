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
        default=3, ge=1, le=1000, description="How many of the newest are kept.", json_schema_extra=IN_PLACE
    )


class Model(Section):
    """Model to train: a decoder-only transformer. Missing values are derived, or unknown."""

    parameters: Count = Field(
        default=0,
        description="How many parameters it has, as in 8B; 0 to count those of its shape.",
        json_schema_extra=IN_PLACE,
    )
    tokens: Count = Field(
        default=0,
        description="How many tokens it is trained on, as in 15T; 0 for those of the steps.",
        json_schema_extra=IN_PLACE,
    )
    layers: int = Field(
        default=0, ge=0, le=10_000, description="How many layers; 0: unknown.", json_schema_extra=IN_PLACE
    )
    hidden: int = Field(
        default=0, ge=0, le=10_000_000, description="How wide a layer is; 0: unknown.", json_schema_extra=IN_PLACE
    )
    heads: int = Field(
        default=0, ge=0, le=100_000, description="How many heads attention has; 0: unknown.", json_schema_extra=IN_PLACE
    )
    kv_heads: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="How many heads keys and values have; 0: as many as attention.",
        json_schema_extra=IN_PLACE,
    )
    head: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How wide a query and a key of one head are; 0: the width of a layer by its heads.",
        json_schema_extra=IN_PLACE,
    )
    value_head: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How wide a value of one head is; 0: as a key.",
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
        description="How wide a feed-forward layer is inside; 0: 8/3 of the width with a gate, 4 times without.",
        json_schema_extra=IN_PLACE,
    )
    vocabulary: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="How many tokens there are; 0: unknown.",
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
        description="Whether the last layer has the weights of the first one.",
        json_schema_extra=IN_PLACE,
    )
    experts: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How many experts each layer has, with those that all tokens use; 0: none.",
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
        description="How wide that feed-forward layer is inside.",
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
        description="How a model is spread over ranks: copied, split, split within a node, or split in each layer.",
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
        description="How many ranks a node has; 0 for one with each accelerator, or one where there is none.",
        json_schema_extra=IN_PLACE,
    )
    steps: int = Field(
        default=100, ge=1, le=100_000_000, description="How many steps a run has.", json_schema_extra=IN_PLACE
    )
    batch: int = Field(
        default=16,
        ge=1,
        le=100_000_000,
        description="How many samples a step has, of all ranks together; a declared model has one a copy or more.",
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
