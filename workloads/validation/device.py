"""Choose the device: the node's accelerators, or its processor if it has none. The code is the same for both."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .each import Begin, on_each
from .ranks import Ranks
from .result import Answer

PCI = Path("/sys/bus/pci/devices")


def devices() -> dict[str, str]:
    """All that this node computes on, by name: its accelerators, in the order of their driver, or its processor."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {name: name for name in (f"cuda:{number}" for number in range(count))} or {"cpu": "cpu"}


def on_all(ranks: Ranks, answer: Answer, work: Callable[[str, Answer, Begin], None], seconds: float) -> None:
    """Run the work on all devices of this node at once; `seconds` is its duration."""
    found = devices()
    if list(found) == ["cpu"]:
        answer.device = "cpu"
        work("cpu", answer, lambda: None)
    elif ranks.local:
        answer.text("skipped", "accelerators", "the first rank of its node measures all of them")
    else:
        answer.device = "cuda"
        on_each(found, work, answer, seconds)


def opened(name: str, answer: Answer) -> torch.device:
    """Select a device for a process, and no other, and name it in the answer."""
    device = _told(name, answer)
    if device.type == "cuda":
        _move_near(device)
    return device


def device_of(ranks: Ranks, answer: Answer) -> torch.device:
    """Return the device of a rank that works together with others."""
    names = list(devices())
    answer.device = names[ranks.local % len(names)]
    return _told(answer.device, answer)


def _told(name: str, answer: Answer) -> torch.device:
    device = torch.device(name)
    answer.versions["torch"] = str(torch.__version__)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        answer.versions["cuda"] = str(torch.version.cuda)
        answer.text("device_name", answer.device, torch.cuda.get_device_name(device))
    else:
        answer.text("device_name", answer.device, f"{platform.machine()}, {torch.get_num_threads()} threads")
    return device


def _move_near(device: torch.device) -> None:
    """Bind to the processors next to an accelerator: memory on the other side of the host is slower."""
    its = torch.cuda.get_device_properties(device)
    try:
        place = f"{its.pci_domain_id:04x}:{its.pci_bus_id:02x}:{its.pci_device_id:02x}.0"
        near = cpus((PCI / place / "local_cpulist").read_text()) & os.sched_getaffinity(0)
        if near:
            os.sched_setaffinity(0, near)
    except (AttributeError, OSError, ValueError):  # some versions of torch and some hosts do not report its place
        return


def cpus(listed: str) -> set[int]:
    """The numbers of a list of the kernel: 0-3,8."""
    ranges = (part.partition("-") for part in listed.strip().split(",") if part)
    return {number for first, _, last in ranges for number in range(int(first), int(last or first) + 1)}


def done(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def random(shape: tuple[int, ...], device: torch.device, kind: Any, seed: int) -> Any:
    """Random numbers, the same for the same seed on every node: zeros would be quicker than any real work."""
    source = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(shape, generator=source, dtype=torch.float32).to(device=device, dtype=kind)
