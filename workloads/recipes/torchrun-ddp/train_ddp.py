"""Plain torch: DistributedDataParallel under torchrun, with the session around the loop."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from stampworks_train import Session, StepSampler
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "200"))
BATCH, WIDTH = 64, 32


def main() -> None:
    """Train one rank, save in a session, and continue from its last checkpoint."""
    dist.init_process_group()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    data = torch.randn(4096, WIDTH)
    model = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH)).to(device)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    session = Session(os.environ["CHECKPOINT_PATH"], model, optimizer)
    rows = iter(StepSampler(len(data), BATCH, after=session.step))
    for step in session.steps(STEPS):
        batch = data[next(rows)].to(device)
        loss = (wrapped(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.tell(loss=loss, tokens=batch.numel())
        if step % 50 == 0 and session.rank == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()
    if session.stopped:  # exit, or the job would count as finished, and would not continue
        raise SystemExit(75)


if __name__ == "__main__":
    main()
