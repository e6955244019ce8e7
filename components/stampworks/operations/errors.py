"""Errors of operations that cannot do their work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OperationError(Exception):
    """Error with its reason and a remedy, ready to be printed."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")


class InputError(OperationError):
    """Asked for something that is not there: the caller can choose better."""


class UnknownError(OperationError):
    """The cluster did not answer, so nothing is known and nothing was done."""


def start(stack: str = "STACK") -> str:
    """Return a hint that starts a cluster, even if Pulumi does not know its stack."""
    return f"start it: pulumi stack select --create {stack} && pulumi up"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint with the names most similar to the given one, or all of them if none is similar."""
    known = sorted(set(names))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    shown = known if len(known) <= 10 else [*known[:9], f"... ({len(known)} in all)"]
    return f"there are: {', '.join(shown)}" if known else "there are none"
