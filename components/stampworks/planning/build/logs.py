"""Plan the storage of the nodes' logs, and how many days it keeps them."""

from __future__ import annotations

from stampworks.declaration import Declaration
from stampworks.plan import Logs, traits_of
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices

DAYS = 30
ROLE = "logs"
"""The role of a release that ships logs; nodes need it only when logs are kept."""


def build(declaration: Declaration, choices: Choices, notes: Notes) -> Logs:
    """Plan the days of logs. Note a problem if the cloud or scheduler keeps none."""
    days, legal = declaration.logs.days, choices.log_days
    if not legal or not traits_of(declaration.scheduler.kind).equips_nodes:
        if days:
            of = "nodes of a Kubernetes" if legal else f"nodes on {declaration.cloud}"
            notes.problem("logs.days", f"logs of {of} cannot be kept yet", "leave it out")
        return Logs(0)
    if days is None:
        days = DAYS
        notes.reason("logs.days", f"{DAYS}, the default")
    if days and days not in legal:
        longer = min((each for each in legal if each > days), default=legal[-1])
        notes.problem("logs.days", f"{declaration.cloud} keeps logs for {_listed(legal)} days", f"write {longer}")
    return Logs(days)


def _listed(numbers: tuple[int, ...]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}"
