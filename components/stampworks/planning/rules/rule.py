"""A rule: its check, the facts that it needs, and the ids of its findings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from stampworks.plan import Plan
from stampworks.planning.rules.findings import Facts, Finding

Need = Literal["facts", "today"]


@dataclass(frozen=True)
class Id:
    """One kind of finding, for the documentation."""

    id: str
    holds: str
    """The condition that holds when the finding is a pass."""
    points: tuple[str, ...]
    """Fields of the declaration that the finding may point to, with [] for an item of a list and * for any text; empty
    for the whole declaration."""


@dataclass(frozen=True)
class Rule:
    """One check of a plan. It yields nothing when it does not apply."""

    id: str
    """Id of its findings, or a common name when it has several ids."""
    needs: tuple[Need, ...]
    """Arguments of the check besides the plan, by name: facts about the machine or the account, and the day."""
    check: Callable[..., Iterator[Finding]]
    """The check. Its docstring states the condition that holds when the rule passes."""
    points: tuple[str, ...] = ()
    """Fields that the finding may point to."""
    several: tuple[Id, ...] = ()
    """Ids of its findings, if there are several."""

    @property
    def ids(self) -> tuple[Id, ...]:
        """Return every id that a finding of this rule may have."""
        sentence = (inspect.getdoc(self.check) or "").partition("\n\n")[0].replace("\n", " ")
        return self.several or (Id(self.id, sentence, self.points),)

    def findings(self, plan: Plan, facts: Facts) -> Iterator[Finding]:
        """Judge a plan. Raises AbsentError when the check reads a part that an incomplete plan lacks."""
        given = {"facts": facts, "today": facts.as_of}
        return self.check(plan, *(given[need] for need in self.needs))
