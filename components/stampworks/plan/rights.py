"""Rights in an account of a cloud that an `up` needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Right:
    """An action on resources of a pattern, as required by calls of an `up`."""

    action: str
    resource: str
    """Pattern of the resources; `{account}` stands for the account. `*` for actions without resources."""
    given: tuple[tuple[str, str], ...] = ()
    """Facts about the call that a policy may ask for: names of conditions and their values."""
    once: bool = False
    """Whether only the first `up` in an account needs it."""
