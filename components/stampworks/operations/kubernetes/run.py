"""Single commands on nodes, which Kubernetes does not run."""

from __future__ import annotations

from typing import NoReturn

from stampworks.operations.errors import InputError
from stampworks.plan import Plan, Roster


def commands(plan: Plan, _: Roster) -> NoReturn:
    """Raise InputError: single commands need Slurm."""
    hint = "as a job: stampworks submit --wait --nodes 2 -- COMMAND"
    raise InputError(f"this command is for Slurm, and the scheduler of cluster {plan.name} is Kubernetes", hint)
