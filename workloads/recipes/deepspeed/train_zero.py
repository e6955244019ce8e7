"""DeepSpeed ZeRO: a small Llama whose optimizer, gradients and weights are sharded among the ranks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, SAVE = int(os.environ.get("STEPS", "200")), 20
STAGE = int(os.environ.get("STAGE", "3"))
BATCH, LENGTH, VOCABULARY = 8, 64, 256


def settings(cuda: bool) -> dict[str, Any]:
    """Return DeepSpeed's configuration: bfloat16 only on accelerators."""
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        "zero_optimization": {"stage": STAGE, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,  # torch's own: DeepSpeed's would have to be compiled
        "bf16": {"enabled": cuda},
    }


def main() -> None:
    """Train, save checkpoints of DeepSpeed, and continue from the last one."""
    cuda = torch.cuda.is_available()
    # Otherwise gloo's collectives within a node are compiled at the first start: this takes minutes, and a compiler on
    # each node.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **sizes))
    first = torch.randint(VOCABULARY, (2048, 1))
    data = (first + 3 * torch.arange(LENGTH)) % VOCABULARY  # text that a small model can learn
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings(cuda))

    folder = str(Path(os.environ["CHECKPOINT_PATH"]).expanduser())
    found, told = engine.load_checkpoint(folder)  # the one that `latest` names, which is written last
    begin = told["step"] if found else 0
    if found and rank == 0:
        print(f"goes on after step {begin}", flush=True)
    for step in range(begin + 1, STEPS + 1):
        rows = torch.randint(len(data), (BATCH * world,), generator=torch.Generator().manual_seed(step))
        tokens = data[rows[rank::world]].to(engine.device)
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        if step % SAVE == 0 or step == STEPS:
            # DeepSpeed itself would write `latest` before other ranks have written their parts.
            engine.save_checkpoint(folder, f"step-{step}", client_state={"step": step}, save_latest=False)
            dist.barrier()
            if rank == 0:
                (Path(folder) / ".latest").write_text(f"step-{step}", encoding="utf-8")
                (Path(folder) / ".latest").replace(Path(folder) / "latest")
                print(f"step {step}: loss {loss.item():.4f}", flush=True)
    if rank == 0:
        print(json.dumps({"step": STEPS, "stage": engine.zero_optimization_stage(), "ranks": world}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
