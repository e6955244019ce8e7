"""Settings of a run in one object. Errors are reported before it starts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from validation.ranks import Cluster

LAYOUTS = ("ddp", "fsdp", "hsdp", "tp")
TRACKERS = ("files", "mlflow", "wandb")
ALONE = Cluster()
COPIES = ("rail", "management")
PRECISIONS = ("auto", "float32", "bfloat16", "float8")
FLOAT8_MULTIPLE = 16


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    length: int = 128
    """Tokens of a sample."""
    vocabulary: int = 256
    """Type of the tokens; bytes unless the shards hold another."""

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads, self.length, self.vocabulary) < 1:
            raise ValueError("layers, width, heads, length and vocabulary must be 1 or more")
        if self.width % (2 * self.heads):
            whole = f"{self.width} / {self.heads} = {self.width / self.heads:g}"
            raise ValueError(f"a head has width / heads = {whole} numbers, which must be even: they turn in pairs")

    @property
    def fingerprint(self) -> str:
        """Return the digest of the model's shape: a checkpoint of another shape does not fit."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Data:
    """The source of samples."""

    source: str = "corpus"
    """`corpus` (the bundled one), `synthetic`, or a directory or URL of shards."""
    cache: str = ""
    """Folder on a local disk for remote shards; without it, none is used."""
    seed: int = 0
    """Seed of the order."""
    prefetch: int = 2
    """Steps that are read ahead."""

    def __post_init__(self) -> None:
        if self.prefetch < 1:
            raise ValueError("prefetch must be 1 or more")


@dataclass(frozen=True)
class Checkpoints:
    """Durable states of the run."""

    directory: str = ""
    """Folder of checkpoints; by default `checkpoints` in the run's folder."""
    keep: int = 3
    every_s: float = 0.0
    """Seconds between two checkpoints; 0 chooses them by cost and failure rate."""
    wait_s: float = 600.0
    """Seconds after which a checkpoint counts as failed."""

    def __post_init__(self) -> None:
        if self.keep < 1 or self.every_s < 0 or self.wait_s <= 0:
            raise ValueError("keep must be 1 or more, every_s not less than 0, wait_s more than 0")


@dataclass(frozen=True)
class Tracking:
    """Tracker of the run's progress."""

    kind: str = "files"
    url: str = ""
    experiment: str = "stampworks"

    def __post_init__(self) -> None:
        if self.kind not in TRACKERS:
            raise ValueError(f"knows no tracker {self.kind!r}: it has {', '.join(TRACKERS)}")


@dataclass(frozen=True)
class Patience:
    """Seconds of silence after which a part of the run counts as gone."""

    start: float = 300.0
    """Time for all nodes to join."""
    node: float = 4.0
    """Time between two heartbeats of a node."""
    step: float = 300.0
    """Time for a step, and for a new generation to be ready."""
    failures: int = 100
    """Number of failures after which the run gives up, because restarts do not help."""

    def __post_init__(self) -> None:
        if min(self.start, self.node, self.step) <= 0 or self.failures < 0:
            raise ValueError("start, node and step must be more than 0, failures not less")


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    name: str
    folder: str
    """Folder of the run, in a directory that all nodes share."""
    steps: int = 100
    batch: int = 16
    """Samples of one step over all ranks, independent of their number."""
    micro: int = 0
    """Samples that one rank computes at once; 0: all of its own."""
    seed: int = 0
    learning_rate: float = 3e-3
    warmup: int = 10
    decay: float = 0.1
    """Decay of the weights."""
    clip: float = 1.0
    """The norm that gradients are cut down to."""
    layout: str = "fsdp"
    tensor_parallel: int = 1
    precision: str = "auto"
    """`auto`: bfloat16 on accelerators that support it, else float32. `float8`: bfloat16 with float8 products in the
    blocks."""
    compile: bool = False
    ranks: int = 0
    """Ranks on each node; 0: one for each accelerator, or a single one without any."""
    pace_s: float = 0.0
    """Minimum seconds of a step, to try a run without its load."""
    snapshots: bool = True
    """Kept in the memory of two nodes, after each step."""
    copies: str = "rail"
    """Network of the second copies: the first `rail` if the node has one, or `management`."""
    peak_tflops: float = 0.0
    """Peak TFLOP/s of one rank's device, as its maker states it; 0 if unknown."""
    price: float = 0.0
    """Price of a node for an hour; 0 if unknown."""
    notice_s: int = 60
    """Seconds before the time limit at which the scheduler warns the run: enough for a step and a checkpoint."""
    model: Model = Model()
    data: Data = Data()
    checkpoints: Checkpoints = Checkpoints()
    tracking: Tracking = Tracking()
    patience: Patience = Patience()
    cluster: Cluster = ALONE

    def __post_init__(self) -> None:
        if not self.name or not self.folder:
            raise ValueError("name and folder must be given")
        if self.layout not in LAYOUTS:
            raise ValueError(f"knows no layout {self.layout!r}: it has {', '.join(LAYOUTS)}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"knows no precision {self.precision!r}: it has {', '.join(PRECISIONS)}")
        if self.copies not in COPIES:
            raise ValueError(f"knows no way {self.copies!r} for copies: it has {', '.join(COPIES)}")
        if self.precision == "float8" and self.layout == "tp":
            raise ValueError(
                "precision float8 scales whole tensors, and layout tp cuts them: ddp, fsdp or hsdp have it"
            )
        if self.precision == "float8" and self.model.width % FLOAT8_MULTIPLE:
            left = f"{self.model.width} / {FLOAT8_MULTIPLE} = {self.model.width / FLOAT8_MULTIPLE:g}"
            raise ValueError(
                f"precision float8 multiplies {FLOAT8_MULTIPLE} numbers at once, and model.width is {left}"
            )
        least = min(self.steps, self.batch, self.tensor_parallel, self.notice_s)
        if least < 1 or min(self.micro, self.warmup, self.ranks) < 0:
            raise ValueError(
                "steps, batch, tensor_parallel and notice_s must be 1 or more; micro, warmup and ranks not less than 0"
            )
        if self.learning_rate <= 0 or self.clip <= 0 or min(self.decay, self.peak_tflops, self.price, self.pace_s) < 0:
            raise ValueError(
                "learning_rate and clip must be more than 0; decay, peak_tflops, price and pace_s not less"
            )
        if self.tensor_parallel > 1 and self.layout != "tp":
            raise ValueError(f"tensor_parallel is of the layout tp, not of {self.layout}")

    def told(self) -> dict[str, Any]:
        """Return the settings as plain data, without those of the cluster."""
        return {name: value for name, value in asdict(self).items() if name != "cluster"}
