"""End a program that must not create anything."""

from __future__ import annotations

import warnings
from typing import NoReturn

import pulumi

_ALREADY_SHOWN = 32
"""Exit status with which a Pulumi program says that the user has seen its error. With any other status, including
RunError's, the engine adds a second error."""


def refuse(text: str) -> NoReturn:
    """Show the text as the stack's error, and end the program before it registers anything."""
    pulumi.log.error(text)
    warnings.simplefilter("ignore")  # about the registrations that the SDK had begun, and that are dropped on purpose
    raise SystemExit(_ALREADY_SHOWN)
