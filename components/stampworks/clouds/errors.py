"""Errors of any cloud, so that callers need not know which cloud they use."""

from __future__ import annotations


class CloudError(Exception):
    """A failed call to a cloud. The text has place, step, reason and hint."""


class UnansweredError(Exception):
    """A request to a cloud without a usable answer."""

    hint: str
    """Hint for the user."""
