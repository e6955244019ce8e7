"""The states of random number generators, which a repeated step must find unchanged."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

import torch


def seen() -> dict[str, Any]:
    """The states of the generators of Python, torch and, if used, NumPy."""
    found = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state()
    if numpy := sys.modules.get("numpy"):
        found["numpy"] = numpy.random.get_state()
    return found


def restore(states: dict[str, Any]) -> None:
    """Restore the states that the run saved; those of missing devices are skipped."""
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    if "numpy" in states:
        numpy = importlib.import_module("numpy")  # the run that saved it had it

        numpy.random.set_state(states["numpy"])
