"""Writes docs/reference/rules.md from the registry of rules: python -m tests.docs.rules"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from stampworks.planning.rules.reading import DAYS_MAX
from stampworks.planning.rules.registry import RULES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"
HEADER = f"""\
# Rules

Rules judge a plan before anything is created: in `stampworks plan`, in a review and in `pulumi up`. Each finding has an
id. This page lists all ids, in the order of the findings. It is made from
`components/stampworks/planning/rules/registry.py`; `python -m tests.docs.rules` writes it again. To add a rule:
[Adding a check](../contributing/adding-a-check.md).

A finding is a *pass* if the sentence of its id holds, a *fail* if it does not, and otherwise *unknown*. A fail is an
error, which stops an `up`, or a warning, of which only `lock.example` stops it. A rule that does not apply has no
finding.

- *needs*: the arguments of the rule besides the plan. *facts* are about this machine, the account or the hosts, read by
  `stampworks facts`; those about account and hosts that are older than {DAYS_MAX} days count as unknown. *today* is the
  date.
- *points to*: the fields of the declaration that a finding names. `[]` is an item of a list, `*` is any name.

"""


def page() -> str:
    """Return the whole page."""
    return HEADER + "".join(f"{line}\n" for line in lines())


def lines() -> Iterator[str]:
    yield _row(("id", "sentence", "needs", "points to"))
    yield _row(("---",) * 4)
    for rule in RULES:
        for kind in rule.ids:
            points = ", ".join(f"`{each}`" for each in kind.points)
            yield _row((f"`{kind.id}`", kind.holds, ", ".join(rule.needs) or "nothing", points or "the whole"))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page())
