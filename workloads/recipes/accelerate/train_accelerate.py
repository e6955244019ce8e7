"""A language model of transformers in a loop of Accelerate, with the session around it."""

from __future__ import annotations

import os

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from stampworks_train import Session, StepSampler
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = int(os.environ.get("STEPS", "200"))
BATCH, LENGTH, VOCABULARY = 16, 64, 256


def main() -> None:
    """Train, save in a session, and continue from its last checkpoint."""
    cuda = torch.cuda.is_available()
    # Name the backend: on CPUs, Accelerate prefers MPI if torch was built with it, as on Debian
    group = InitProcessGroupKwargs(backend="nccl" if cuda else "gloo")
    accelerator = Accelerator(cpu=not cuda, kwargs_handlers=[group])
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    plain = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **sizes))
    first = torch.randint(VOCABULARY, (2048, 1))
    data = (first + 3 * torch.arange(LENGTH)) % VOCABULARY  # text that a small model can learn
    model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters(), lr=1e-3))

    session = Session(os.environ["CHECKPOINT_PATH"], plain, optimizer.optimizer)
    rows = iter(StepSampler(len(data), BATCH, after=session.step))
    for step in session.steps(STEPS):
        tokens = data[next(rows)].to(accelerator.device)
        loss = model(input_ids=tokens, labels=tokens).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        session.tell(loss=loss, tokens=BATCH * LENGTH)
        if step % 20 == 0:
            accelerator.print(f"step {step}: loss {loss.item():.4f}", flush=True)
    accelerator.end_training()
    if session.stopped:  # exit, or the job would count as finished, and would not continue
        raise SystemExit(75)


if __name__ == "__main__":
    main()
