"""The traits that distinguish schedulers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """The answers of a scheduler to every question that depends on its kind."""

    title: str
    """The display name."""
    keeps: str
    """The contents of the controller's state volume."""
    worker_role: str
    """Role that makes a node a worker of this scheduler."""
    control_plane: str
    """Managed component that schedules without a head; empty if a head schedules."""
    runs_pods: bool
    """Whether jobs run in pods, which have addresses of their own and start from images."""
    equips_nodes: bool
    """Whether roles install drivers, file system clients and the checks' programs; otherwise images and operators
    do."""
    has_addons: bool
    """Whether the releases of a catalog extend it by add-ons."""
    admits_gangs: bool
    """Whether Kueue admits all pods of a job together, or none."""
    has_namespaces: bool
    """Whether an account is a namespace, which is deleted with everything in it."""
    keeps_accounts: bool
    """Whether the scheduler's database records usage."""
    lends: bool
    """Whether an account may borrow capacity that other accounts leave idle."""
    fills_blocks: bool
    """Whether each block needs as many nodes as the base block."""
