"""What is wrong in a declaration, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str
    source: str


class DeclarationError(Exception):
    """All that is wrong in a declaration; its text is what the user reads."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{p.file}:{p.line}:{p.column}: {p.path}: {p.message}" for p in problems))
