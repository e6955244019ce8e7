"""What a review says of a change: made by planning, shown by views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stampworks.changes.charges import Charge, Cost
from stampworks.changes.differences import Difference
from stampworks.changes.outcomes import Outcome

Policy = Literal["in place", "roll", "replace", "refuse", "create", "destroy"]
"""What a change does, as it stands beside the declared field; of a stack that is new or gone, that it is."""
Verdict = Literal["pass", "fail", "unknown"]
Kind = Literal["changed", "created", "destroyed"]
Effect = Literal["replace", "restart", "data", "cost", "unknown"]
"""An effect of a change that `--fail-on` can name."""
Stage = Literal["network", "storage", "head", "nodes", "roll", "playbook", "proof", "removal"]


@dataclass(frozen=True)
class DeclaredChange:
    """A value that somebody has decided on, and what the decision does."""

    difference: Difference
    field: str
    """The declared field, pools[].count; empty where none leads to this value."""
    written: str
    """The same with names instead of brackets, pools[gpu].count; where no field is known, the way in the plan."""
    policy: Policy | None
    """None where nobody can tell."""
    restarts: int
    """How many nodes that run are made anew because of it."""
    why: str = ""
    """Why it is refused, where that does not follow from the field."""
    loses: tuple[str, ...] = ()
    """What goes with all it holds, and is not protected."""


@dataclass(frozen=True)
class AffectedNodes:
    """Some nodes of a group."""

    group: str
    count: int
    names: tuple[str, ...]
    """Empty where the cloud names them."""


@dataclass(frozen=True)
class Operation:
    """One step of the `up` that carries a change out."""

    stage: Stage
    text: str


@dataclass(frozen=True)
class Reach:
    """An expectation before and after; None where there is none."""

    name: str
    unit: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Ruling:
    """What a rule says before and after; None where it says nothing."""

    id: str
    before: Outcome | None
    after: Outcome | None
    text: str
    hint: str


@dataclass(frozen=True)
class Sibling:
    """Another stack that the same change reaches."""

    stack: str
    verdict: Verdict
    changes: int
    restarts: int
    broken: str = ""
    """Why it does not load any more; empty where it loads."""


@dataclass(frozen=True)
class Review:
    stack: str
    base: str
    head: str
    kind: Kind
    verdict: Verdict
    changes: tuple[DeclaredChange, ...]
    following: tuple[Difference, ...]
    """What follows from the changes."""
    restart: tuple[AffectedNodes, ...]
    join: tuple[AffectedNodes, ...]
    leave: tuple[AffectedNodes, ...]
    order: tuple[Operation, ...]
    before: Cost
    after: Cost
    expectations: tuple[Reach, ...]
    """Those that change."""
    rules: tuple[Ruling, ...]
    """Those that say something else."""
    siblings: tuple[Sibling, ...]
    unstamped: str
    """Why no `up` of the stack is possible; empty where one is."""
    unknown: tuple[str, ...]

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects for which a person may want to be asked, the most severe first."""
        more, sold = self.usd_per_hour, any(each.sold for each in (*self.before.charges, *self.after.charges))
        has: dict[Effect, bool] = {
            "data": any(each.loses for each in self.changes),
            "replace": any(each.policy in ("replace", "destroy") for each in self.changes),
            "restart": bool(self.restart),
            "cost": bool(self.changes) and sold and (more is None or more > 0),
            "unknown": self.verdict == "unknown",
        }
        return tuple(effect for effect, there in has.items() if there)

    @property
    def usd_per_hour_min(self) -> float | None:
        """What it costs more while only those nodes run that always do."""
        return None if self.unpriced else self.known_usd_per_hour_min

    @property
    def usd_per_hour(self) -> float | None:
        """What it costs more. Known as well where only what stays has no price."""
        return None if self.unpriced else self.known_usd_per_hour

    @property
    def known_usd_per_hour_min(self) -> float:
        return round(sum(_more(one.usd_per_hour_min, two.usd_per_hour_min) for one, two in self._charged()), 6)

    @property
    def known_usd_per_hour(self) -> float:
        """The same of what has a price, before and after: one of them alone is no difference."""
        return round(sum(_more(one.usd_per_hour, two.usd_per_hour) for one, two in self._charged()), 6)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """What changes, and has no price before or after."""
        return tuple(one.what for one, two in self._charged() if None in (one.usd_per_hour, two.usd_per_hour))

    def _charged(self) -> Iterator[tuple[Charge, Charge]]:
        """What is charged before and after, where that changes; what is not there costs nothing."""
        before = {each.what: each for each in self.before.charges}
        after = {each.what: each for each in self.after.charges}
        for what in dict.fromkeys((*before, *after)):
            nothing = Charge(what, "", 0, 0, "it is not there")
            one, other = before.get(what, nothing), after.get(what, nothing)
            if one.price != other.price:
                yield one, other


def _more(before: float | None, after: float | None) -> float:
    """How much more it is; nothing that counts where either is unknown."""
    return 0 if before is None or after is None else after - before
