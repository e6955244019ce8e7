"""Why a node takes no jobs: who keeps it from them, and the one form in which Slurm stores that.

Slurm has one line of text for each node. Whatever of ours drains a node writes this form into it, and whatever reads
the line learns from it whose drain it is: nobody gives a node back that somebody else has taken out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

BYTES_MAX = 255
"""Of the written form: Slurm's accounting keeps no more of a reason."""

By = Literal["person", "stampworks", "health", "proof", "slurm"]
_WRITTEN = re.compile(r"(?:person (?P<who>\S+)|(?P<by>stampworks|health|proof)): (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class DrainReason:
    by: By
    """A person with `stampworks drain`, an `up` (stampworks), the health check, a failed proof, or Slurm's commands."""
    who: str
    """The person, or whom Slurm names; empty where that says nothing more."""
    text: str

    @property
    def personal(self) -> bool:
        """Whether a person wants it so, with our commands or with Slurm's."""
        return self.by == "person" or (self.by == "slurm" and self.who not in ("", "root", "slurm"))


UNPROVEN = DrainReason("proof", "", "not proven yet")
"""Of a node that is new, or has a new disk: it takes jobs when it has passed."""
STARTED_AGAIN = DrainReason("proof", "", "started again, and not proven since")
"""Of a node that has passed before: no roll has begun with it."""


def prefix(by: Literal["stampworks", "health", "proof"]) -> str:
    """How the written form begins of all that one part of the toolkit has drained."""
    return f"{by}: "


def written(reason: DrainReason) -> str:
    if reason.by == "slurm":
        return reason.text
    return f"person {reason.who}: {reason.text}" if reason.by == "person" else prefix(reason.by) + reason.text


def parsed(line: str, set_by: str = "") -> DrainReason:
    """The inverse of written; any other line is one that Slurm, or somebody with Slurm's own commands, has set."""
    found = _WRITTEN.fullmatch(line)
    if not found:
        return DrainReason("slurm", set_by, line)
    if who := found["who"]:
        return DrainReason("person", who, found["text"])
    return DrainReason(cast(By, found["by"]), "", found["text"])
