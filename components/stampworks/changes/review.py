"""The review of a change: created by planning, shown by views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stampworks.changes.charges import Charge, Cost
from stampworks.changes.differences import Difference
from stampworks.changes.outcomes import Outcome

Policy = Literal["in place", "roll", "replace", "refuse", "create", "destroy"]
"""The effect of a change, from the policy of its declared field; create and destroy are for whole stacks."""
Verdict = Literal["pass", "fail", "unknown"]
Kind = Literal["changed", "created", "destroyed"]
Effect = Literal["replace", "restart", "data", "cost", "unknown"]
"""An effect of a change that `--fail-on` can name."""
Stage = Literal["network", "storage", "head", "nodes", "roll", "playbook", "proof", "removal"]


@dataclass(frozen=True)
class DeclaredChange:
    """A changed value of the declaration, and the effect of the change."""

    difference: Difference
    field: str
    """The declared field, pools[].count; empty when no field leads to this value."""
    written: str
    """The field with names of its entries, pools[gpu].count; without a field, the path in the plan."""
    policy: Policy | None
    """None when unknown."""
    restarts: int
    """Number of running nodes that the change replaces."""
    why: str = ""
    """Why it is refused, when that does not follow from the field."""
    loses: tuple[str, ...] = ()
    """Resources that are deleted with their data, and are not protected."""

    @property
    def needs_approval(self) -> bool:
        """Whether an `up` makes the change only after a user's approval."""
        return self.policy in ("refuse", "replace") or bool(self.loses)


@dataclass(frozen=True)
class AffectedNodes:
    """Some nodes of a group."""

    group: str
    count: int
    names: tuple[str, ...]
    """Empty when the cloud names them."""


@dataclass(frozen=True)
class Operation:
    """One step of the `up` that makes a change."""

    stage: Stage
    text: str


@dataclass(frozen=True)
class Reach:
    """An expectation before and after; None when absent."""

    name: str
    unit: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Ruling:
    """The outcome of a rule before and after; None when it reports nothing."""

    id: str
    before: Outcome | None
    after: Outcome | None
    text: str
    hint: str


@dataclass(frozen=True)
class Sibling:
    """Another stack that the same change affects."""

    stack: str
    verdict: Verdict
    changes: int
    restarts: int
    broken: str = ""
    """Why it no longer loads; empty when it loads."""


@dataclass(frozen=True)
class Review:
    """Effects of a change of one stack: before, after, and the verdict of the rules."""

    stack: str
    base: str
    head: str
    kind: Kind
    verdict: Verdict
    changes: tuple[DeclaredChange, ...]
    following: tuple[Difference, ...]
    """Differences that follow from the changes."""
    restart: tuple[AffectedNodes, ...]
    join: tuple[AffectedNodes, ...]
    leave: tuple[AffectedNodes, ...]
    order: tuple[Operation, ...]
    before: Cost
    after: Cost
    expectations: tuple[Reach, ...]
    """Expectations that change."""
    rules: tuple[Ruling, ...]
    """Rules whose findings change."""
    siblings: tuple[Sibling, ...]
    unstamped: str
    """Reason why the stack can have no `up`; empty if it can."""
    unknown: tuple[str, ...]
    id: str = ""
    """Id with which a user approves the change; empty if an `up` needs no approval."""
    existing: tuple[tuple[str, str], ...] = ()
    """Parts of the account's owners that the stack uses, before or after, with their ids."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Return the effects that a person may want to approve, the most severe first."""
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
        """Return the additional cost while only the nodes run that always do."""
        return None if self.unpriced else self.known_usd_per_hour_min

    @property
    def usd_per_hour(self) -> float | None:
        """Return the additional cost; known even if an unchanged charge has no price."""
        return None if self.unpriced else self.known_usd_per_hour

    @property
    def known_usd_per_hour_min(self) -> float:
        """The lower bound of the difference in cost, over the items whose prices are known."""
        return round(sum(_increase(one.usd_per_hour_min, two.usd_per_hour_min) for one, two in self._charged()), 6)

    @property
    def known_usd_per_hour(self) -> float:
        """Return the additional cost of charges with a price before and after: a single price is no difference."""
        return round(sum(_increase(one.usd_per_hour, two.usd_per_hour) for one, two in self._charged()), 6)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Return the changed charges without a price before or after."""
        return tuple(one.what for one, two in self._charged() if None in (one.usd_per_hour, two.usd_per_hour))

    def _charged(self) -> Iterator[tuple[Charge, Charge]]:
        """Yield charges that change, before and after; an absent charge costs nothing."""
        before = {each.what: each for each in self.before.charges}
        after = {each.what: each for each in self.after.charges}
        for what in dict.fromkeys((*before, *after)):
            nothing = Charge(what, "", 0, 0, "it is not there")
            one, other = before.get(what, nothing), after.get(what, nothing)
            if one.price != other.price:
                yield one, other


def _increase(before: float | None, after: float | None) -> float:
    """Return the increase; 0 when either is unknown."""
    return 0 if before is None or after is None else after - before
