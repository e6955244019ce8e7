"""Ray Train: DistributedDataParallel in a TorchTrainer, with Ray's own checkpoints. The first node runs this."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model
from torch import nn

STEPS, SAVE = int(os.environ.get("STEPS", "200")), 20
BATCH, WIDTH = 64, 32
WORKERS = int(os.environ["NNODES"]) * int(os.environ["PET_NPROC_PER_NODE"])


def train(settings: dict[str, Any]) -> None:
    """Run on each worker, from the last checkpoint on if there is one."""
    steps, save = settings["steps"], settings["save"]
    torch.manual_seed(0)
    data = torch.randn(4096, WIDTH)
    device = get_device()
    model = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first, last = 0, ray.train.get_checkpoint()
    if last:
        with last.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt", map_location=device)
        first = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    wrapped = prepare_model(model)
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    if first and rank == 0:
        print(f"goes on after step {first}", flush=True)
    for step in range(first + 1, steps + 1):
        rows = torch.randint(len(data), (BATCH,), generator=torch.Generator().manual_seed(step))
        batch = data[rows[rank::world]].to(device)
        loss = (wrapped(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % save == 0 or step == steps:
            told = {"step": step, "after": first, "loss": loss.item(), "workers": world}
            if rank > 0:  # all workers report, the first one with the state
                ray.train.report(told)
                continue
            with tempfile.TemporaryDirectory() as folder:
                state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, Path(folder) / "state.pt")
                ray.train.report(told, checkpoint=Checkpoint.from_directory(folder))


def main() -> None:
    """Start the workers of Ray Train, and continue a run of this name."""
    path = Path(os.environ["CHECKPOINT_PATH"]).expanduser()
    trainer = TorchTrainer(
        train,
        train_loop_config={"steps": STEPS, "save": SAVE},
        scaling_config=ScalingConfig(num_workers=WORKERS, use_gpu=torch.cuda.is_available()),
        # A run with this name continues; lost workers are restarted meanwhile.
        run_config=RunConfig(
            name="run",
            storage_path=str(path),
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    print(f"finished: {trainer.fit().metrics}", flush=True)


if __name__ == "__main__":
    main()
