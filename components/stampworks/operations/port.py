"""The port to schedulers: everything that verbs ask of a scheduler.

Each scheduler is a package next to this file, whose module `scheduler` has a `PORT`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stampworks.operations.ground import ProvingGround
from stampworks.operations.job import JobScheduler
from stampworks.operations.run import Commands
from stampworks.operations.service import Service
from stampworks.operations.status import ClusterStatus, NodesStatus
from stampworks.plan import Plan, Roster
from stampworks.qualification import Subject


@dataclass(frozen=True)
class Port:
    """The functions of a scheduler, by the protocol that each returns."""

    asks_members: bool
    """Whether it needs a member of the cluster, over ssh; else a roster may be empty."""
    service: Callable[[Plan, Roster], Service]
    """Nodes in and out of service."""
    ground: Callable[[Subject, Roster], ProvingGround]
    """Nodes that are reserved for a proof."""
    jobs: Callable[[Plan, Roster], JobScheduler]
    """Submits, lists and cancels runs."""
    commands: Callable[[Plan, Roster], Commands]
    """Single commands on nodes. Raises InputError if the scheduler runs none."""
    status: Callable[[Plan, Roster], ClusterStatus]
    nodes: Callable[[Plan, Roster, Sequence[str]], NodesStatus]
    """The state of some nodes."""
    files: Callable[[Plan, Roster], dict[str, str]]
    """The files that the playbook gives to its daemons, by name."""
    user_config: Callable[[Plan, str], str]
    """Returns the kubeconfig of a user; empty if users log in by ssh."""
    ask_storage: Callable[[Plan, Roster, str, Sequence[str], float, str], str]
    """Runs a program on a member that mounts the storage, as a user, with a limit in seconds and an input. Returns its
    output."""
