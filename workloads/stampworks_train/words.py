"""Text that others wrote, in a form that can be shown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

WORDS_MAX = 500
"""Maximum characters of a text from elsewhere."""
CREDENTIALS = re.compile(r"://[^/@\s]+@")
SIGNED = re.compile(r"([?&][^=&\s]*(?:sig|token|key|secret|password|credential)[^=&\s]*)=[^&\s]+", re.IGNORECASE)


def plain(text: str) -> str:
    """Text from anywhere as one line of bounded length."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return line if len(line) <= WORDS_MAX else line[: WORDS_MAX - 3] + "..."


def without_secrets(told: Any) -> Any:
    """Return data without secrets: users and signatures in addresses."""
    if isinstance(told, Mapping):
        return {str(name): without_secrets(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [without_secrets(value) for value in told]
    if isinstance(told, str):
        return SIGNED.sub(r"\1=...", CREDENTIALS.sub("://...@", told))
    return told if not isinstance(told, float) or math.isfinite(told) else None
