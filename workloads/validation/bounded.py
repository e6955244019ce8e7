"""Wait with a limit for calls that may never return, such as those on a file system without a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def within(seconds: float, work: Callable[[], Found], what: str) -> Found:
    """Return the result of `work`; raise TimeoutError if it takes longer, and abandon it."""
    found: list[Found] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(f"{what} does not answer within {seconds:g} s")
    return found[0]
