"""The users that a command may act for."""

from __future__ import annotations

from collections.abc import Sequence

from stampworks.operations.errors import InputError, nearest
from stampworks.plan import Plan


def expect_user(plan: Plan, user: str, besides: Sequence[str] = ("root",)) -> None:
    """Raise InputError for a user who is neither declared nor one of the additional ones."""
    names = [*besides, *(declared.name for declared in plan.users)]
    if user not in names:
        raise InputError(f"no user is called {user!r} in cluster {plan.name}", nearest(user, names))
