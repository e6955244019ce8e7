"""What a cloud decides about a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choices:
    controller_machine: str
    """The catalog's name of the machine that the scheduler's controller runs on."""
    controller_why: str
