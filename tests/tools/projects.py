"""A throw-away Pulumi project, and the real engine to run it with."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


def sourced(shell: str = "sh", **variables: str) -> dict[str, str]:
    """The environment after `. tools/env.sh`, begun from almost nothing."""
    script = '. tools/env.sh && exec python3 -c "import json, os; print(json.dumps(dict(os.environ)))"'
    begin = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **variables}
    told = subprocess.run([shell, "-euc", script], cwd=ROOT, env=begin, capture_output=True, text=True, check=True)
    assert told.stderr == ""
    return dict(json.loads(told.stdout))


@dataclass(frozen=True)
class Project:
    folder: Path
    environment: dict[str, str]

    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def pulumi(self, *arguments: str) -> tuple[int, str]:
        """Run the engine; its exit status, and everything it said."""
        with self.start(*arguments) as engine:
            said, _ = engine.communicate(timeout=120)
        return engine.returncode, said
