"""What planning finds out on its way besides the plan itself."""

from __future__ import annotations

from stampworks.declaration import DeclarationError, Problem, Source
from stampworks.plan import Reason


class Notes:
    """Problems with the declaration and reasons for derived values, in the order in which they were found.

    Planning goes on after a problem, as if the user had followed its hint, so that all problems come out together.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._problems: list[Problem] = []
        self._reasons: list[Reason] = []

    def problem(self, path: str, message: str, hint: str = "") -> None:
        self._problems.append(self._source.problem(path, message, hint))

    def reason(self, path: str, why: str) -> None:
        self._reasons.append(Reason(path, why))

    def reasons(self) -> tuple[Reason, ...]:
        """All reasons, once it is certain that there was no problem."""
        if self._problems:
            raise DeclarationError(tuple(self._problems))
        return tuple(self._reasons)
