"""Errors that any cloud ends with: callers need not know which cloud they ask."""

from __future__ import annotations


class CloudError(Exception):
    """A cloud did not say or do something: the text says where, what, why, and what to do about it."""


class UnansweredError(Exception):
    """A question to a cloud has no answer, so that nothing more is known than before."""

    hint: str
    """What to do about it."""
