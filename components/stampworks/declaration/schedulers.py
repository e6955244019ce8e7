"""Fields of each scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SchedulerForm:
    """Check combinations of fields for a scheduler; use defaults for an unknown one."""

    accounts_need_accounting: bool = True
    has_addons: bool = True
    has_login_nodes: bool = True
    simulates_all: bool = False
    """Whether all pools may be for scheduling only: the scheduler shows that jobs are simulated."""


_FORMS: Mapping[str, SchedulerForm] = {
    "slurm": SchedulerForm(has_addons=False),
    "kubernetes": SchedulerForm(accounts_need_accounting=False, has_login_nodes=False, simulates_all=True),
}


def form_of(scheduler: Mapping[str, object]) -> SchedulerForm:
    """Return the form of a declared scheduler."""
    return _FORMS.get(str(scheduler.get("kind")), SchedulerForm())
