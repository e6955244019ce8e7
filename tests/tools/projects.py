"""A throw-away Pulumi project, and the real engine to run it with."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.project import Project

ROOT = Path(__file__).parents[2]


def sourced(shell: str = "sh", **variables: str) -> dict[str, str]:
    """The environment after `. tools/env.sh`, begun from almost nothing."""
    script = '. tools/env.sh && exec python3 -c "import json, os; print(json.dumps(dict(os.environ)))"'
    begin = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **variables}
    told = subprocess.run([shell, "-euc", script], cwd=ROOT, env=begin, capture_output=True, text=True, check=True)
    assert told.stderr == ""
    return dict(json.loads(told.stdout))


@dataclass
class SourcedProject(Project):
    """A project whose engine and state come from tools/env.sh."""

    sourced: dict[str, str]
    limit_s: ClassVar[float] = 120

    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text)

    def environment(self) -> dict[str, str]:
        return self.sourced
