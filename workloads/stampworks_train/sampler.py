"""The samples of a step as a function of the step alone, so that a position is one number."""

from __future__ import annotations

import os
from collections.abc import Iterator

import torch
import torch.distributed as dist


class StepSampler:
    """The rows of this rank, step after step: `DataLoader(data, batch_sampler=StepSampler(...))`.

    `batch` counts the samples of a step over all ranks. An epoch takes no sample twice, and leaves out the samples that
    do not fill a step, others each time. `after` is the step from which to continue: `session.step`.
    """

    def __init__(self, samples: int, batch: int, after: int = 0, seed: int = 0, ranks: int = 0) -> None:
        """`ranks`: number of ranks that share a step; 0: all of them, 1: each takes the whole step."""
        known = dist.is_initialized()
        self._world = ranks or (dist.get_world_size() if known else int(os.environ.get("WORLD_SIZE", "1")))
        self._rank = (dist.get_rank() if known else int(os.environ.get("RANK", "0"))) % self._world
        if batch < 1 or batch % self._world:
            raise ValueError(f"batch {batch} must be a multiple of the {self._world} ranks: each takes as many samples")
        if samples < batch:
            raise ValueError(f"{samples} samples do not fill a step of {batch}")
        self.samples, self.batch, self.after, self.seed = samples, batch, after, seed

    def __iter__(self) -> Iterator[list[int]]:
        """Yield batches without an end: the loop over steps ends the run."""
        steps = self.samples // self.batch
        at, known, order = self.after, -1, torch.empty(0)
        while True:
            epoch, inside = divmod(at, steps)
            if epoch != known:
                chance = torch.Generator().manual_seed((self.seed << 32) + epoch)
                known, order = epoch, torch.randperm(self.samples, generator=chance)
            first = inside * self.batch
            yield order[first + self._rank : first + self.batch : self._world].tolist()
            at += 1
