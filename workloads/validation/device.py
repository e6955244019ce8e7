"""Where torch computes: this rank's accelerator where there is one, else the processor. The same code for both."""

from __future__ import annotations

import platform
from typing import Any

import torch

from .ranks import Ranks
from .result import Answer


def device_of(ranks: Ranks, answer: Answer) -> torch.device:
    """This rank's device, of which the answer tells."""
    answer.versions["torch"] = str(torch.__version__)
    if torch.cuda.is_available():
        device = torch.device("cuda", ranks.local % torch.cuda.device_count())
        torch.cuda.set_device(device)
        answer.device = str(device)
        answer.versions["cuda"] = str(torch.version.cuda)
        answer.text("device_name", answer.device, torch.cuda.get_device_name(device))
        return device
    answer.device = "cpu"
    answer.text("device_name", "cpu", f"{platform.machine()}, {torch.get_num_threads()} threads")
    return torch.device("cpu")


def done(device: torch.device) -> None:
    """Returns when the device has done all it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def random(shape: tuple[int, ...], device: torch.device, kind: Any, seed: int) -> Any:
    """Random numbers, the same for the same seed on every node: zeros would be quicker than any real work."""
    source = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(shape, generator=source, dtype=torch.float32).to(device=device, dtype=kind)
