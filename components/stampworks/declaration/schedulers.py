"""The fields that each scheduler takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SchedulerForm:
    """The combinations of fields that are legal for a scheduler; the defaults are for one that is not known."""

    accounts_need_accounting: bool = True
    has_addons: bool = True
    has_login_nodes: bool = True
    simulates_all: bool = False
    """Whether all pools may be for scheduling only: it says itself that jobs run there."""


_FORMS: Mapping[str, SchedulerForm] = {
    "slurm": SchedulerForm(has_addons=False),
    "kubernetes": SchedulerForm(accounts_need_accounting=False, has_login_nodes=False, simulates_all=True),
}


def form_of(scheduler: Mapping[str, object]) -> SchedulerForm:
    """Return the form of a declared scheduler."""
    return _FORMS.get(str(scheduler.get("kind")), SchedulerForm())
