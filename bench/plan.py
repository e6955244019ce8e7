"""`stampworks plan` against the mere import of the engine's SDK, which every Pulumi program pays."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.machine import quiet, timed
from bench.rows import Row, compared

FILE = Path(__file__).parents[1] / "stacks" / "Pulumi.local.yaml"


def rows() -> list[Row]:
    return [
        compared(
            "stampworks plan, against import pulumi",
            "s",
            lambda: timed(lambda: quiet(sys.executable, "-m", "stampworks.cli.main", "plan", str(FILE))),
            lambda: timed(lambda: quiet(sys.executable, "-c", "import pulumi")),
            target=1.5,
            pairs=20,
        )
    ]
