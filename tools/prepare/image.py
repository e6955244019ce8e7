"""The image of local nodes: the project itself builds it."""

from __future__ import annotations

from pathlib import Path

from .progress import Step, run


def ensure_image(step: Step, root: Path) -> None:
    """Build the image for this machine, unless it is in the cache."""
    run([root / ".venv/bin/python", "-m", "stampworks.cli.main", "image"], step.say, cwd=root)
