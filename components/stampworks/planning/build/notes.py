"""What planning finds out on its way besides the plan itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from stampworks.declaration import AbsentError, DeclarationError, Problem, DeclarationSource
from stampworks.plan import Reason

Made = TypeVar("Made")
Asked = ParamSpec("Asked")


class Notes:
    """Problems with the declaration and reasons for derived values, in the order in which they were found.

    Planning goes on after a problem, as if the user had followed its hint, so that all problems come out together.
    Those of the declaration by itself are among them.
    """

    def __init__(self, source: DeclarationSource) -> None:
        self._source = source
        self._problems = [*source.problems]
        self._reasons: list[Reason] = []

    def problem(self, path: str, message: str, hint: str = "", last: bool = False) -> None:
        """Of a value that is wrong by itself nothing more is said: planning has seen another in its place, or none."""
        if self._source.knows(path):
            self._problems.append(self._source.problem(path, message, hint, last))

    def reason(self, path: str, why: str) -> None:
        self._reasons.append(Reason(path, why))

    def step(self, make: Callable[Asked, Made], *asked: Asked.args, **named: Asked.kwargs) -> Made:
        """What a step makes; nothing where it needs what is wrong in the declaration, or what such a step has not made.

        What it has found before holds: a problem hides none but those that may follow from it.
        """
        try:
            return make(*asked, **named)
        except AbsentError:
            return cast(Made, _Absent())

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problems)

    def refuse_problems(self) -> None:
        if self._problems:
            raise DeclarationError(self._problems)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return tuple(self._reasons)


class _Absent:
    """In place of what a step has not made."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AbsentError(name)

    def __iter__(self) -> Any:
        raise AbsentError

    def __hash__(self) -> NoReturn:
        """Raise AbsentError, so that it is no key of a table either."""
        raise AbsentError
