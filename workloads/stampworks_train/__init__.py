"""The checkpoint service as a library: `from stampworks_train import Session`. It needs torch and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sampler import StepSampler
    from .session import Session

__all__ = ["Session", "StepSampler"]


def __getattr__(name: str) -> Any:
    """Import torch when a class is asked for: agents and reports use the other modules without it."""
    if name == "Session":
        from .session import Session

        return Session
    if name == "StepSampler":
        from .sampler import StepSampler

        return StepSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
