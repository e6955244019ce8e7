"""The requests of a proof to a scheduler, the same for every scheduler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from stampworks.operations import remote
from stampworks.operations.errors import OperationError, UnknownError
from stampworks.plan import Roster
from stampworks.schedulers.slurm import HEALTH
from stampworks.text.reasons import DrainReason

_LOOK_S = 30.0
_LOOKS = 16
"""Number of nodes looked at in parallel: each look is an ssh connection."""
Progress = Callable[[str], None]


class ProofHeldError(OperationError):
    """Another proof runs on the same cluster."""


@dataclass(frozen=True)
class NodeStanding:
    """The state of a node in its scheduler."""

    busy: str = ""
    """Jobs that run on it, in words; empty for none."""
    held: DrainReason | None = None
    """Reason that keeps jobs from it, with its author."""
    out: str = ""
    """Reason why it takes no jobs; empty if it does."""
    silent: bool = False
    """Whether it does not answer now; it may answer soon."""


@dataclass(frozen=True)
class Ended:
    """The end of a start of some programs, a rank on each node."""

    code: int
    """0 if all programs succeeded; 124 if they took too long."""
    output: str
    """Output of the programs, each line with its rank before it: `3: ...`."""
    said: str
    """Reason for a failure, in a line."""


class ProvingGround(Protocol):
    """Nodes reserved for a single proof, and the start of programs on them."""

    scheduler: str
    """Name of the scheduler for people."""

    def await_turn(self, patience_s: float, progress: Progress) -> None:
        """Wait until no other proof runs, and remove the remains of a killed one."""

    def look(self, names: Collection[str]) -> dict[str, NodeStanding]:
        """Return all known nodes, with the current state of the named ones."""

    def held(self) -> dict[str, DrainReason]:
        """Return the reason for each held node."""

    def take(self, names: Sequence[str]) -> bool:
        """Reserve these nodes: no other job starts on them. Return False when another proof was faster."""

    def extend(self, seconds: float) -> None:
        """Make sure that the reservation lasts this much longer."""

    def give_back(self) -> None:
        """Release the nodes, except held ones."""

    def let_in(self, names: Sequence[str]) -> None:
        """Release nodes that a proof holds back, for programs of the toolkit."""

    def hold(self, reasons: Mapping[str, DrainReason]) -> None:
        """Hold nodes with a reason each. A node that is already held keeps its reason."""

    def busy(self) -> dict[str, str]:
        """Return the nodes on which work of others runs, with a sentence about each."""

    def lost(self, names: Sequence[str], limit_s: float, progress: Progress) -> dict[str, str]:
        """Return the nodes that take no jobs, with the reason; wait for nodes that are about to answer."""

    def prepare(self, names: Sequence[str], progress: Progress) -> None:
        """Prepare these nodes for a start before its time is counted; `lost` has the nodes where that failed."""

    def start(
        self, queue: str, nodes: Sequence[str], accelerators: int, program: Sequence[str], limit_s: float
    ) -> Ended:
        """Run a program on each of these nodes. End it after the time limit, without leftovers."""


def look_again(roster: Roster, names: Sequence[str]) -> None:
    """Let nodes that the health check holds repeat it and report to their scheduler."""

    def look(name: str) -> None:
        with contextlib.suppress(UnknownError):  # the scheduler, asked next, says that it is silent
            remote.hear(roster, name, [HEALTH], _LOOK_S)

    with ThreadPoolExecutor(_LOOKS) as threads:
        list(threads.map(look, names))
