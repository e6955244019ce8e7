"""Planning depends on the declaration and the catalog, and on nothing else."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from stampworks import planning
from stampworks.catalog import accelerators, fabrics, machines, newest_release, releases
from stampworks.catalog.hardware import machines_of, names
from stampworks.catalog.rows import load
from stampworks.catalog.rows import text as text_of
from stampworks.declaration import load_stack
from stampworks.plan import to_json


def forbidden(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("planning asked for what it must not know")


@pytest.mark.parametrize("stack", ["local", "local-accounting"])
def test_a_plan_needs_no_network_clock_place_or_environment(
    stack: str, stacks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sockets and clock are blocked, and folder and environment are others: the plan is the same."""
    source = load_stack(stack, stacks)
    usual = to_json(planning.plan(source))
    for cached in (load, text_of, machines, machines_of, names, accelerators, fabrics, releases, newest_release):
        cached.cache_clear()
    with monkeypatch.context() as world:
        for name in ("time", "monotonic", "perf_counter", "localtime", "gmtime"):
            world.setattr(time, name, forbidden)
        world.setattr(socket, "socket", forbidden)
        world.setattr(socket, "getaddrinfo", forbidden)
        world.setattr("os.environ", {})
        world.chdir(tmp_path)
        text = to_json(planning.plan(source))
    assert text == usual


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_a_plan_does_not_depend_on_the_order_of_sets(seed: str, stacks: Path) -> None:
    """Processes with different hash seeds write the same plan."""
    program = (
        "import sys; from pathlib import Path\n"
        "from stampworks import planning\n"
        "from stampworks.declaration import load_stack\n"
        "from stampworks.plan import to_json\n"
        "sys.stdout.write(to_json(planning.plan(load_stack('local-accounting', Path(sys.argv[1])))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(stacks)],
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == to_json(planning.plan(load_stack("local-accounting", stacks)))
