"""Programs of the toolkit that run on a node with the cluster's storage, with the rights of a user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from stampworks.operations.errors import UnknownError
from stampworks.operations.schedulers import port_of
from stampworks.plan import Plan, Roster


@dataclass(frozen=True)
class ClusterProgram:
    """A module that is sent as text, and answers with an object of JSON in its last line."""

    module: ModuleType
    limit_s: float
    garbled: str
    """Error text for an answer of any other form."""

    def ask(self, plan: Plan, roster: Roster, user: str, words: Sequence[str], given: str = "") -> dict[str, Any]:
        """Run the program on the cluster and return its answer. Raise UnknownError for an unreadable one."""
        argv = ["python3", "-I", "-c", Path(str(self.module.__file__)).read_text(), *words]
        answer = port_of(plan.scheduler.kind).ask_storage(plan, roster, user, argv, self.limit_s, given)
        try:
            found = json.loads(answer.splitlines()[-1])
        except (ValueError, IndexError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise UnknownError(self.garbled, "look there: stampworks ssh head")
        return found
