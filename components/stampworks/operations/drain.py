"""Messages about nodes out of service: their holder, the reason, and forbidden actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from stampworks.operations.errors import InputError, OperationError, nearest
from stampworks.plan import Plan
from stampworks.text.reasons import BYTES_MAX, DrainReason, written

LEAVES = DrainReason("stampworks", "", "leaves the cluster")
REPLACED = DrainReason("stampworks", "", "gets another machine")
RENEWED = DrainReason("stampworks", "", "gets a new disk")

Progress = Callable[[str], None]
AS_BEFORE = "nothing was removed, the nodes take jobs again"
DRAINED = "they stay drained"
WHOSE = {"health": "the health check", "stampworks": "an `up`", "proof": "its proof", "cloud": "a notice of its cloud"}
_RETURNS = {
    "health": "the health check returns {nodes} when it passes",
    "stampworks": "`pulumi up --refresh` returns {nodes} when no `up` needs the drain any more",
    "proof": "`stampworks qualify --nodes {nodes}` measures and returns what passes, and so does `pulumi up`",
    "cloud": "{nodes} returns by itself when the notice is withdrawn",
}


class BusyError(OperationError):
    """Time was up and jobs still ran."""


class HeldError(OperationError):
    """Nodes that are not the asker's to give back; none was given back."""


def not_returned(held: Mapping[str, DrainReason]) -> HeldError:
    """Name the holder of each node, and the command that returns its nodes."""
    lines = [f"{name} is held by {WHOSE[reason.by]}: {reason.text}" for name, reason in held.items()]
    by = {origin: [name for name, reason in held.items() if reason.by == origin] for origin in _RETURNS}
    ways = [_RETURNS[origin].format(nodes=" ".join(names)) for origin, names in by.items() if names]
    return HeldError("\n".join([*lines, "no node was returned"]), "; ".join([*ways, "--force returns them now"]))


def said_by(who: str, text: str) -> DrainReason:
    """Return a person's reason for a drain, if Slurm can keep it as it is."""
    reason = DrainReason("person", re.sub(r"[^A-Za-z0-9._-]", "-", who) or "unknown", text.strip())
    if not reason.text:
        raise InputError("the reason is empty", "give a short reason, for other users of the node")
    if odd := next((char for char in reason.text if not char.isprintable()), ""):
        raise InputError(f"the reason has the character U+{ord(odd):04X} in it", "write it in one line of plain text")
    if (size := len(written(reason).encode())) > BYTES_MAX:
        raise InputError(
            f"the reason is {size - BYTES_MAX} bytes too long: with its author, Slurm keeps {BYTES_MAX}",
            "shorten it",
        )
    return reason


def check_names(plan: Plan, names: Sequence[str], nodes: Collection[str]) -> None:
    """Raise InputError for a name that is no worker, with the nearest names as a hint."""
    for name in names:
        if name in {node.name for node in plan.controller.nodes}:
            raise InputError(f"{name} is the controller and runs no jobs", nearest(name, nodes))
        if name in {node.name for group in plan.login for node in group.nodes}:
            raise InputError(f"{name} is a login node and runs no jobs", nearest(name, nodes))
        if name not in nodes:
            raise InputError(f"no node is called {name!r} in cluster {plan.name}", nearest(name, nodes))
