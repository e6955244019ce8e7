"""The cluster's nodes, as Slurm has them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

LIMIT_S = 60
REASON_BYTES_MAX = 250
"""Slurm cuts off what is longer than a column of its database."""
OFF = {"power_down", "powering_down", "powered_down"}
WANTED = {"power_up", "powering_up"}
ROW = re.compile(r"^NodeName=(?P<name>\S+) .*?\bNodeAddr=(?P<address>\S+) .*?\bState=(?P<state>\S+) ")
LATE = "ResumeTimeout"
"""Beginning of Slurm's reason for a machine that has not answered in time."""
REASON = re.compile(r" Reason=(?P<reason>.*) \[(?P<by>[^@\[\]]+)@[^@\[\]]+\]")


@dataclass(frozen=True)
class Node:
    name: str
    address: str
    flags: frozenset[str]
    """All words of its state."""
    reason: str
    by: str
    """Author of the reason: slurm is the daemon, or these programs."""

    @property
    def cloud(self) -> bool:
        """Whether it starts with the work; one that always runs is nobody's to end here."""
        return "cloud" in self.flags

    @property
    def off(self) -> bool:
        """Whether Slurm has it without a machine; one that it wants again is not."""
        return bool(self.flags & OFF) and not self.starts

    @property
    def starts(self) -> bool:
        """Whether its machine has not become it yet, for which Slurm waits."""
        return bool(self.flags & WANTED)

    @property
    def well(self) -> bool:
        """Whether its machine has become it."""
        return not self.off and not self.starts and "down" not in self.flags

    @property
    def lost(self) -> bool:
        """Whether it takes no jobs because it does not answer, and not because a person said so."""
        return "down" in self.flags and self.by == "slurm"

    @property
    def late(self) -> bool:
        """Whether it is lost because its machine did not become it in time."""
        return self.lost and self.reason.startswith(LATE)


def names_of(hostlist: str) -> list[str]:
    """Return the names in a hostlist of Slurm, one by one."""
    return _scontrol("show", "hostnames", "--", hostlist).split()


def nodes() -> dict[str, Node]:
    """All that there are, those that are switched off among them."""
    found = map(_node, _scontrol("--oneliner", "show", "nodes").splitlines())
    return {node.name: node for node in found if node}


def set_address(name: str, address: str) -> None:
    _scontrol("update", f"nodename={name}", f"nodeaddr={address}")


def give_back(names: list[str], why: str) -> None:
    """Return nodes to the powered-down state. A job that waited for one is requeued if it allows that."""
    if names:
        plain = " ".join("".join(each if each.isprintable() else " " for each in why).replace('"', "'").split())
        reason = plain.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
        _scontrol("update", f"nodename={','.join(names)}", "state=power_down_force", f"reason={reason}")


def _node(row: str) -> Node | None:
    if not (found := ROW.match(row)):
        return None
    why = REASON.search(row)
    flags = frozenset(found["state"].lower().rstrip("*~#!%$@^-+").split("+"))
    return Node(found["name"], found["address"], flags, *(why["reason"], why["by"]) if why else ("", ""))


def _scontrol(*arguments: str) -> str:
    done = subprocess.run(["scontrol", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"scontrol {' '.join(arguments[:2])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
