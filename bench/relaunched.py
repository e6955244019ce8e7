"""A rank of the baseline of recovery: the same model under torchrun, with its state on disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch.nn.parallel import DistributedDataParallel
from training.model import Transformer
from training.settings import Model

from tests.training.runs import SMALL


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    model = DistributedDataParallel(Transformer(Model(**SMALL)))
    optimizer = torch.optim.AdamW(model.parameters())
    path = folder / "state"
    if path.exists():
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    tokens = torch.randint(0, 256, (2, SMALL["length"] + 1))
    while True:
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path.with_suffix(".draft"))
            path.with_suffix(".draft").replace(path)
            with (folder / "steps").open("a") as file:
                file.write("one\n")
        dist.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
