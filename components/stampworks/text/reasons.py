"""Reasons why a node takes no jobs: the origin of a drain, and its form in Slurm.

Slurm has a line of text for each node. All programs of the toolkit write drains in this form, and read their origin
from it. Only the origin that drained a node returns it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, cast

BYTES_MAX = 255
"""Bytes of the written form. Slurm's accounting keeps no more of a reason."""

By = Literal["person", "stampworks", "health", "proof", "cloud", "slurm"]
_WRITTEN = re.compile(r"(?:person (?P<who>\S+)|(?P<by>stampworks|health|proof|cloud)): (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class DrainReason:
    """The origin of a drain and its text."""

    by: By
    """Origin: a user with `stampworks drain`, an `up` (stampworks), the health check, a failed proof, a notice of the
    cloud that the machine will end, or Slurm's commands."""
    who: str
    """Name of the user, or of the user that Slurm reports; empty if unknown."""
    text: str

    @property
    def lasting(self) -> bool:
        """Whether no proof and no new disk returns the node: a user drained it, with the toolkit's or Slurm's commands,
        or its machine ends."""
        return self.by in ("person", "cloud") or (self.by == "slurm" and self.who not in ("", "root", "slurm"))


UNPROVEN = DrainReason("proof", "", "not proven yet")
"""Reason of a node that is new or has a new disk. It takes jobs after its proof."""
STARTED_AGAIN = DrainReason("proof", "", "started again, and not proven since")
"""Reason of a node that was proven before. No roll has started with it."""


def prefix(by: Literal["stampworks", "health", "proof", "cloud"]) -> str:
    """Return the prefix of the written form for one origin."""
    return f"{by}: "


def written(reason: DrainReason) -> str:
    """Return a reason as Slurm keeps it, which `drain_reason` reads back."""
    if reason.by == "slurm":
        return reason.text
    return f"person {reason.who}: {reason.text}" if reason.by == "person" else prefix(reason.by) + reason.text


def kept(reason: DrainReason) -> DrainReason:
    """Return a reason in one line, with as much of its text as Slurm keeps."""
    plain = "".join(char if char.isprintable() and char != '"' else " " for char in reason.text)
    room = BYTES_MAX - len(written(replace(reason, text="")).encode())
    if len(plain.encode()) > room:
        plain = plain.encode()[: room - 3].decode(errors="ignore") + "..."
    return replace(reason, text=plain)


def parsed(line: str, set_by: str = "") -> DrainReason:
    """Parse a reason; the inverse of written. Any other line comes from Slurm, or from a user of Slurm's commands."""
    found = _WRITTEN.fullmatch(line)
    if not found:
        return DrainReason("slurm", set_by, line)
    if who := found["who"]:
        return DrainReason("person", who, found["text"])
    return DrainReason(cast(By, found["by"]), "", found["text"])
