"""Lets torchrun and plain init_process_group work with a torch that was built without libuv, as Debian's is.

torch calls `load` at the end of its import: the entry point is in the group torch.backends.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

ABSENT = "without libuv"
"""Part of the error of such a torch. It asks for libuv by default, and torchrun's own stores never say otherwise."""


def load() -> None:
    """Make stores without libuv where this torch has none."""
    distributed: Any = sys.modules["torch"].distributed
    if not distributed.is_available():
        return
    make = distributed.TCPStore.__init__

    @wraps(make)
    def make_either(store: Any, *arguments: Any, **options: Any) -> None:
        try:
            make(store, *arguments, **options)
        except RuntimeError as error:
            if ABSENT not in str(error):
                raise
            make(store, *arguments, **{**options, "use_libuv": False})

    distributed.TCPStore.__init__ = make_either
