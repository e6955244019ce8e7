"""The loss of the last checkpoint of torchrun-ddp on samples that it has not seen, shared among the ranks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

WIDTH, SAMPLES = 32, 1024


def main() -> None:
    """Load the last whole checkpoint and print its loss. Exit with a hint when there is none."""
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    folder = Path(os.environ["CHECKPOINT_PATH"])
    whole = sorted(path for path in folder.glob("checkpoints/step-*") if (path / "manifest.json").exists())
    if not whole:
        raise SystemExit(f"{folder}: has no checkpoint: run workloads/recipes/torchrun-ddp/job.yaml first")
    model = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH))
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=whole[-1])
    model.load_state_dict(state["model"])
    samples = torch.randn(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(1))[rank::world]
    with torch.no_grad():
        losses = (model(samples) - samples).square().mean(1)
    total = torch.stack([losses.sum(), torch.tensor(float(len(losses)))])
    dist.all_reduce(total)
    if rank == 0:
        found = {"checkpoint": whole[-1].name, "samples": int(total[1]), "loss": float(total[0] / total[1])}
        (folder / "evaluation.json").write_text(json.dumps(found) + "\n")
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
