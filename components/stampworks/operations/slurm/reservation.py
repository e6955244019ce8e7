"""Nodes reserved for a proof: Slurm's reservation, and its holder.

Slurm allows a single reservation of this name, so that proofs take turns. It is a lease that its holder extends: nodes
of a killed proof are free again soon.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from stampworks.operations import holder, remote
from stampworks.operations.errors import OperationError
from stampworks.operations.ground import Progress, ProofHeldError
from stampworks.plan import Roster

NAME = "stampworks-proof"
LEASE_MINUTES = 5
_POLL_S = 2.0
_HELD = re.compile(r"^\s*Comment=(.*)$", re.MULTILINE)


@dataclass
class Lease:
    """Nodes of this reservation."""

    roster: Roster
    holder: str
    until: float
    """End of the reservation on our clock."""

    def extend(self, seconds: float) -> None:
        """Make sure that the reservation lasts this much longer."""
        if time.monotonic() + seconds + 60 > self.until:
            minutes = int(seconds // 60) + LEASE_MINUTES
            _scontrol(self.roster, "update", f"endtime=now+{minutes}minutes")
            self.until = time.monotonic() + 60 * minutes

    def give_back(self) -> None:
        """Delete the rest of this proof's reservation, unless it has another holder; the remainder ends at its time
        limit."""
        with contextlib.suppress(OperationError):
            if _holder(self.roster) == self.holder:
                _scontrol(self.roster, "delete")


def take(roster: Roster, nodes: Sequence[str]) -> Lease | None:
    """Reserve these nodes: no other job starts on them. Return None when another proof was faster."""
    ours = holder.ourselves()
    settings = ["starttime=now", f"duration={LEASE_MINUTES}", "users=root", "flags=ignore_jobs", f"comment={ours}"]
    try:
        _scontrol(roster, "create", *settings, f"nodes={','.join(nodes)}")
    except remote.RemoteError:
        if _holder(roster) is None:
            raise
        return None
    return Lease(roster, ours, time.monotonic() + 60 * LEASE_MINUTES)


def await_turn(roster: Roster, patience_s: float, progress: Progress) -> None:
    """Wait until no other proof runs, and remove the remains of a killed one."""
    until = time.monotonic() + patience_s
    while (found := _holder(roster)) is not None:
        if holder.is_gone(found):
            with contextlib.suppress(OperationError):
                remote.ask(roster, remote.head(roster).name, ["scancel", f"--reservation={NAME}"])
            with contextlib.suppress(OperationError):
                _scontrol(roster, "delete")
            continue
        who = f"of {holder.person(found)}"
        if time.monotonic() > until:
            raise ProofHeldError(
                f"another proof {who} is running on cluster {roster.cluster}",
                f"wait for it, or end it there; nodes of a killed proof are free after {LEASE_MINUTES} minutes",
            )
        progress(f"waiting for another proof {who}")
        time.sleep(_POLL_S)


def _holder(roster: Roster) -> str | None:
    """Return the holder of the reservation; None when there is none."""
    code, said, why = remote.hear(roster, remote.head(roster).name, ["scontrol", "show", "reservation", NAME], 20)
    if code:
        if "not found" in said + why:
            return None
        raise remote.RemoteError(
            f"head: scontrol ended with exit code {code}: {why}", "look there: stampworks ssh head"
        )
    found = _HELD.search(said)
    return found[1].strip() if found else ""


def _scontrol(roster: Roster, verb: str, *settings: str) -> None:
    kind = ["reservation"] if verb == "create" else []
    remote.ask(roster, remote.head(roster).name, ["scontrol", verb, *kind, f"reservationname={NAME}", *settings])
