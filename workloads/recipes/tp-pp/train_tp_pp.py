"""A model that is cut in Megatron's style with torch's own means: layers among stages, matrices among ranks.

`TP` ranks share each matrix (torch.distributed.tensor.parallel); the others are stages, each with a part of the layers
(torch.distributed.pipelining). Megatron-LM itself needs CUDA for its kernels.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from stampworks_train import Session, StepSampler
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS = int(os.environ.get("STEPS", "200"))
TP = int(os.environ.get("TP", "1"))
LAYERS, BATCH, MICRO, WIDTH = 4, 32, 4, 64


class Layer(nn.Module):
    """A residual feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        """Add the layer's output to its input."""
        changed: Tensor = values + self.down(torch.relu(self.up(values)))
        return changed


class Stage(nn.Module):
    """The layers of a stage, by the names that they have in the whole: parts of a checkpoint fit together."""

    def __init__(self, layers: range, device: torch.device) -> None:
        super().__init__()
        self.layers = nn.ModuleDict()
        for number in layers:
            torch.manual_seed(number)  # the same whole layer on all ranks that share it
            self.layers[str(number)] = Layer().to(device)

    def forward(self, values: Tensor) -> Tensor:
        """Pass values through the layers of this stage."""
        for layer in self.layers.values():
            values = layer(values)
        return values


def main() -> None:
    """Train one rank with its stage of the model and its part of each matrix."""
    dist.init_process_group()
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(kind, int(os.environ["LOCAL_RANK"]) if kind == "cuda" else 0)
    if kind == "cuda":
        torch.cuda.set_device(device)
    mesh = init_device_mesh(kind, (dist.get_world_size() // TP, TP), mesh_dim_names=("stages", "cut"))
    stages, place = mesh["stages"].size(), mesh.get_local_rank("stages")
    model = Stage(range(place * LAYERS // stages, (place + 1) * LAYERS // stages), device)
    if TP > 1:
        for layer in model.layers.values():
            parallelize_module(layer, mesh["cut"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    stage = PipelineStage(model, place, stages, device, group=mesh.get_group("stages"))
    schedule = ScheduleGPipe(stage, MICRO, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randn(1024, WIDTH, generator=torch.Generator().manual_seed(0))

    session = Session(os.environ["CHECKPOINT_PATH"], model, optimizer)
    rows = iter(StepSampler(len(data), BATCH, after=session.step, ranks=1))
    for step in session.steps(STEPS):
        batch = data[next(rows)].to(device)
        losses: list[Tensor] = []
        ends = {"target": batch.flip(1), "losses": losses} if place == stages - 1 else {}
        schedule.step(*([batch] if place == 0 else []), **ends)
        optimizer.step()
        optimizer.zero_grad()
        loss = torch.stack(losses).mean() if losses else None
        session.tell(loss=loss, tokens=BATCH)
        if step % 50 == 0 and loss is not None and mesh.get_local_rank("cut") == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()
    if session.stopped:  # exit, or the job would count as finished, and would not continue
        raise SystemExit(75)


if __name__ == "__main__":
    main()
