"""The questions and answers of a campaign's steps."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stampworks.qualification.certificate import CheckFinding, Measured
from stampworks.qualification.results import Heard


@dataclass(frozen=True)
class Ask:
    """A start of some programs, with a rank on each node."""

    programs: tuple[str, ...]
    nodes: tuple[str, ...]
    options: Mapping[str, Any]
    seconds: float
    """Time limit from start to end."""
    what: str
    """Progress message for people."""


@dataclass
class Evidence:
    """The findings and measurements of a campaign so far."""

    findings: list[CheckFinding] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

    def add(self, findings: Sequence[CheckFinding], measured: Sequence[Measured] = ()) -> None:
        """Add findings and measurements of one step."""
        self.findings += findings
        self.measured += measured

    @property
    def failed(self) -> frozenset[str]:
        """Names of the nodes that failed a check so far."""
        return frozenset(node for each in self.findings if each.verdict == "fail" for node in each.nodes)


Campaign = Generator[Ask, Heard, None]
