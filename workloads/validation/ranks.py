"""Ranks of a start: this one, the others, and the places of each node's rails."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .meeting import First, Meeting, meet
from .result import Answer, Problem, Text, Value, findings

PORT = 29500


@dataclass(frozen=True)
class Node:
    """A node of the cluster, as the options name it."""

    name: str
    address: str
    rails: tuple[str, ...] = ()
    """Address on each rail, in the order of `Cluster.rails`; empty if it has none. A node may have fewer rails."""


@dataclass(frozen=True)
class Cluster:
    """Facts about the nodes of a start: the option `cluster`."""

    nodes: tuple[Node, ...] = ()
    rails: tuple[str, ...] = ()
    """Names of the rails, which are those of their NICs."""
    port: int = PORT
    """Port of the first rank; torch uses the next one."""
    wait: float = 30.0
    """Seconds of every wait for another rank."""
    shared: bool = False
    """Whether the nodes are simulated on a single machine, so that their programs share its CPUs."""
    limit: float = 600.0
    """Seconds after which a program that hangs in spite of all is ended, and with it the whole start."""

    def __post_init__(self) -> None:
        if not 1024 <= self.port <= 65534:
            raise ValueError(f"port must be 1024 to 65534, not {self.port}")
        if self.wait <= 0 or self.limit <= 0:
            raise ValueError("wait and limit must be more than 0 seconds")

    def named(self, name: str) -> Node | None:
        """Return the node with this name, or None."""
        return next((node for node in self.nodes if node.name == name), None)

    def rails_of(self, name: str) -> dict[str, str]:
        """Address by rail, for rails on which a node has one."""
        node = self.named(name)
        return {rail: address for rail, address in zip(self.rails, node.rails, strict=False) if address} if node else {}

    def at(self, address: str) -> tuple[str, str]:
        """Return node and rail of an address; empty if unknown."""
        for node in self.nodes:
            if address == node.address:
                return node.name, ""
            if address in node.rails[: len(self.rails)]:
                return node.name, self.rails[node.rails.index(address)]
        return "", ""


class Ranks:
    """This process and the other ranks of its start."""

    def __init__(self, cluster: Cluster, environment: Mapping[str, str] = os.environ) -> None:
        self.cluster = cluster
        self.rank = _number(environment, "SLURM_PROCID", "RANK", 0)
        self.world = _number(environment, "SLURM_NTASKS", "WORLD_SIZE", 1)
        self.local = _number(environment, "SLURM_LOCALID", "LOCAL_RANK", 0)
        self.node = environment.get("SLURMD_NODENAME") or environment.get("NODE_NAME") or os.uname().nodename
        self.first = self._first(environment)
        job = environment.get("SLURM_JOB_ID") or environment.get("JOB_ID", "0")
        step = environment.get("SLURM_STEP_ID", "0")
        self.start = f"stampworks {job}.{step}"
        self.program = 0
        self._meeting: Meeting | None = None

    def _first(self, environment: Mapping[str, str]) -> First:
        """Return the address of rank 0: the first node that Slurm names, on the management network."""
        if environment.get("MASTER_ADDR"):
            address = environment["MASTER_ADDR"]
            name, _ = self.cluster.at(address)
            return First(name or address, address, _number(environment, "MASTER_PORT", "", self.cluster.port))
        listed = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or self.node
        name = first_name(listed)
        node = self.cluster.named(name)
        return First(name, node.address if node else name, self.cluster.port)

    @property
    def meeting(self) -> Meeting:
        """Return the other ranks. Programs that need none never wait for them."""
        if self._meeting is None:
            self._meeting = meet(self.rank, self.world, self.node, self.first, self.cluster.wait, self.start)
            self._meeting.begin(self.program)
        return self._meeting

    @property
    def met(self) -> Meeting | None:
        """The meeting, or None before a program has asked for it."""
        return self._meeting

    def begin(self, program: int) -> None:
        """Set the number of the current program, so that late messages of earlier ones are ignored."""
        self.program = program
        if self._meeting:
            self._meeting.begin(program)

    @property
    def names(self) -> list[str]:
        """The nodes by rank, as far as they are known."""
        known = self._meeting.names if self._meeting else {self.rank: self.node}
        return [known.get(rank, "") for rank in range(self.world)] if len(known) > 1 else [self.node]

    def name_of(self, rank: int) -> str:
        """Return a rank's node; for a rank that never arrived, one of the silent nodes."""
        known = self.meeting.names
        silent = [each for each in range(self.world) if each not in known]
        missing = [node.name for node in self.cluster.nodes if node.name not in known.values()]
        return known.get(rank) or dict(zip(silent, missing, strict=False)).get(rank, f"rank {rank}")

    def collect(self, answer: Answer) -> None:
        """Collect the answers of all ranks on the first one, with reasons for missing ones."""
        found = self.meeting.gather(findings(answer))
        answer.told = self.rank > 0
        for rank, one in found.items():
            if rank:
                answer.values += [Value(**value) for value in one["values"]]
                answer.texts += [Text(**text) for text in one["texts"]]
                answer.problems += [Problem(**problem) for problem in one["problems"]]
        for rank, why in self.meeting.absent.items() if not self.rank else ():
            answer.problem(f"no answer: {why}", node=self.name_of(rank))


def first_name(listed: str) -> str:
    """The first of Slurm's folded names: gpu-001 of gpu-[001-003,007],head."""
    found = re.match(r"([^\[,]+)(?:\[(\d+)[^\]]*\]([^,]*))?", listed)
    return "".join(part or "" for part in found.groups()) if found else listed


def _number(environment: Mapping[str, str], name: str, other: str, default: int) -> int:
    text = environment.get(name) or environment.get(other) or ""
    return int(text) if text.isdecimal() else default
