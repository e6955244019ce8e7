"""A group of all ranks for torch's collectives, on the network that the environment names."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from .ranks import Ranks
from .result import Answer

KEPT: list[object] = []
"""Finished groups, kept alive: Gloo's destructor waits for threads that may wait for Python, which is a deadlock."""
ADDRESS = re.compile(r"\[?(\d+\.\d+\.\d+\.\d+)\]?")


@functools.cache
def _store(ranks: Ranks) -> Any:
    """Return the store at which ranks meet: a single one for all programs of a start, because its port stays in use
    until the last one ends."""
    return dist.TCPStore(
        ranks.first.address,
        ranks.first.port + 1,
        ranks.world,
        ranks.rank == 0,
        timeout=datetime.timedelta(seconds=ranks.cluster.wait),
        wait_for_workers=False,
        use_libuv=False,  # Debian's torch lacks it
    )


def together(ranks: Ranks, answer: Answer, place: int, wait: float, work: Callable[[], None], rail: str = "") -> None:
    """Run the work in a group of all ranks, each at its place; failures become problems of the answer."""
    store = _store(ranks)
    try:
        dist.init_process_group(
            answer.backend,
            store=dist.PrefixStore(f"{ranks.program} {rail}", store),
            rank=place,
            world_size=ranks.world,
            timeout=datetime.timedelta(seconds=wait),
        )
        work()
    except RuntimeError as error:
        _explain(str(error), ranks, rail, answer)
    finally:
        if dist.is_initialized():
            KEPT.append(dist.group.WORLD)
            dist.destroy_process_group()


def _explain(said: str, ranks: Ranks, rail: str, answer: Answer) -> None:
    """Explain a failed collective: the library's own message names an address at best."""
    found = next((ranks.cluster.at(each) for each in ADDRESS.findall(said) if any(ranks.cluster.at(each))), ("", ""))
    peer = f"with {found[0]}: " if found[0] and found[0] != ranks.node else ""
    answer.problem(f"a collective broke {peer}{said}", rail=rail)
