"""A language model of transformers in its Trainer: a callback adds the session to a foreign loop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from stampworks_train import Session, StepSampler
from torch.utils.data import IterableDataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

STEPS = int(os.environ.get("STEPS", "200"))
BATCH, LENGTH, VOCABULARY = 8, 64, 256


class Samples(IterableDataset):
    """Samples of a step, from the session's step on, which is known when the training begins."""

    after = 0

    def __init__(self) -> None:
        first = torch.randint(VOCABULARY, (2048, 1), generator=torch.Generator().manual_seed(0))
        self.tokens = (first + 3 * torch.arange(LENGTH)) % VOCABULARY

    def __iter__(self) -> Iterator[dict[str, Any]]:
        # Accelerate cuts a step's samples among the ranks: each of them must see all.
        world = int(os.environ.get("WORLD_SIZE", "1"))
        for rows in StepSampler(len(self.tokens), BATCH * world, after=self.after, ranks=1):
            for row in rows:
                yield {"input_ids": self.tokens[row], "labels": self.tokens[row]}


class Survive(TrainerCallback):
    """Callback of the Trainer for the session: state before the first step, and a report after each."""

    def __init__(self, folder: str, samples: Samples) -> None:
        self.folder, self.samples = folder, samples

    def on_train_begin(self, _: Any, state: Any, __: Any, **told: Any) -> None:
        """Open the session, which restores the last checkpoint, and skip the samples already used."""
        self.session = Session(self.folder, told["model"], told["optimizer"].optimizer, scheduler=told["lr_scheduler"])
        state.global_step = self.samples.after = self.session.step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the step, and stop the Trainer when the session is told to stop."""
        self.session.tell(tokens=BATCH * LENGTH * args.world_size)
        self.session.done(state.global_step, last=state.global_step >= state.max_steps)
        control.should_training_stop = control.should_training_stop or self.session.stopped

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Close the session, which waits for the last checkpoint."""
        self.session.close()


def main() -> None:
    """Train with a callback that keeps the session."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **sizes))
    folder = os.environ["CHECKPOINT_PATH"]
    options = TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        learning_rate=1e-3,
        logging_steps=20,
        save_strategy="no",  # the session saves
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        # name it: the default is MPI if torch was built with it, as on Debian
        ddp_backend="nccl" if torch.cuda.is_available() else "gloo",
        accelerator_config={"dispatch_batches": False},
    )
    samples = Samples()
    survive = Survive(folder, samples)
    Trainer(model, options, train_dataset=samples, callbacks=[survive]).train()
    if survive.session.stopped:  # exit, or the job would count as finished, and would not continue
        raise SystemExit(75)


if __name__ == "__main__":
    main()
