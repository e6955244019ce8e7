"""Errors of machines that exist."""

from __future__ import annotations

from stampworks.clouds.errors import CloudError


class HostError(CloudError):
    """A host that could not be used, with place, step, reason and hint."""

    def __init__(self, where: str, what: str, why: str, hint: str = "") -> None:
        super().__init__(f"{where}: {what}: {why}" + (f"\n  hint: {hint}" if hint else ""))
