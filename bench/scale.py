"""Growth with the number of nodes: users wait for plan and preview, and an `up` may take longer."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.machine import quiet, timed
from bench.memory import total_mib
from bench.rows import Row, compared, measured
from bench.stack import NAME, Stack, stack

FEW, MANY, MOST = 4, 64, 1024
PAIRS, PLAN_PAIRS = 8, 20
SMALL = {"FEW": 1, "MANY": 2, "MOST": 8, "PAIRS": 1, "PLAN_PAIRS": 1}
PLANNED = """\
version: 1
name: bench
cloud: local
pools: [{{name: gpu, machine: sim-h100, count: {nodes}}}]
fabric: {{rail_rate_mbps: 1, leaf_nodes: 8}}
"""


def rows() -> list[Row]:
    with stack(FEW) as small, stack(MANY) as large:
        small.up()
        begun = large.up_until_idle()
        found = [
            _plan(small.folder),
            compared(
                f"preview without a change, {MANY} nodes against {FEW}",
                "s",
                lambda: timed(lambda: _preview(large)),
                lambda: timed(lambda: _preview(small)),
                target=1.25,
                pairs=PAIRS,
            ),
            measured(f"warm up until {MANY} nodes are idle", "s", [begun.idle_s]),
            measured(f"of it Ansible, {MANY} nodes", "s", [begun.ansible_s]),
            measured(f"memory of {MANY} idle nodes and their head", "MiB", [total_mib(large)]),
        ]
        started = time.perf_counter()
        large.destroy()
        return [*found, measured(f"destroy of {MANY} nodes", "s", [time.perf_counter() - started])]


def _plan(folder: Path) -> Row:
    files = {nodes: folder / f"{nodes}.yaml" for nodes in (FEW, MOST)}
    for nodes, file in files.items():
        file.write_text(PLANNED.format(nodes=nodes))

    def plan(nodes: int) -> float:
        return timed(lambda: quiet(sys.executable, "-m", "stampworks.cli.main", "plan", str(files[nodes])))

    what = f"stampworks plan, {MOST} nodes against {FEW}"
    return compared(what, "s", lambda: plan(MOST), lambda: plan(FEW), target=1.5, pairs=PLAN_PAIRS)


def _preview(found: Stack) -> None:
    found.run("pulumi", "preview", "--stack", NAME)
