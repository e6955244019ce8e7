"""Problems and reasons that planning collects besides the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from stampworks.declaration import AbsentError, DeclarationError, DeclarationSource, Problem
from stampworks.plan import Reason

Made = TypeVar("Made")
Asked = ParamSpec("Asked")


class Notes:
    """Problems of the declaration and reasons for derived values, in the order of their discovery.

    After a problem, planning continues as if the user had followed its hint, so that all problems are reported
    together. They include those of the declaration itself.
    """

    def __init__(self, source: DeclarationSource) -> None:
        self._source = source
        self._problems = [*source.problems]
        self._reasons: list[Reason] = []

    def problem(self, path: str, message: str, hint: str = "", last: bool = False) -> None:
        """Add a problem, unless the value itself is wrong: then planning saw a substitute, or none."""
        if self._source.knows(path):
            self._problems.append(self._source.problem(path, message, hint, last))

    def reason(self, path: str, why: str) -> None:
        """Note why the value at a path of the plan was chosen."""
        self._reasons.append(Reason(path, why))

    def step(self, make: Callable[Asked, Made], *asked: Asked.args, **named: Asked.kwargs) -> Made:
        """Run a step. Return a placeholder if it needs a wrong part of the declaration, or the result of such a step.

        Its earlier findings stay: a problem hides only those that may follow from it.
        """
        try:
            return make(*asked, **named)
        except AbsentError:
            return cast(Made, _Absent())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems so far, in the order of discovery."""
        return tuple(self._problems)

    def refuse_problems(self) -> None:
        """Raise DeclarationError with all problems so far, if any."""
        if self._problems:
            raise DeclarationError(self._problems)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons so far, which the plan keeps."""
        return tuple(self._reasons)


class _Absent:
    """A placeholder for the result of a step that could not run."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AbsentError(name)

    def __iter__(self) -> Any:
        raise AbsentError

    def __hash__(self) -> NoReturn:
        """Raise AbsentError, so that it cannot be a key of a table either."""
        raise AbsentError
