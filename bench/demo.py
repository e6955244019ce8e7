"""Measure a cold `make demo` by phase: a fresh copy of the commit, without builds and downloads."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from bench.ending import room_for_one, started
from bench.machine import quiet
from bench.rows import Row, measured
from bench.stack import ROOT

TIMEOUT_S = 3600
SMALL: dict[str, object] = {}
"""No smaller case exists: the build is always the same."""
# A step of the preparation ends with its title and `ready`; the demo's own commands begin with `> `.
_READY = re.compile(r"^(\S.*?) {2,}ready")
_COMMAND = re.compile(r"^> (\S+ \S+)")


def rows() -> list[Row]:
    with room_for_one() as folder:
        quiet("git", "clone", "--quiet", str(ROOT), str(folder / "clone"))
        try:
            phases = _demo(folder)
        finally:
            for kept in ("go-build", "go-modules"):  # Go makes its caches read-only
                subprocess.run(["chmod", "-R", "-f", "u+w", str(folder / kept)], check=False)
    return [measured(f"cold make demo: {what}", "s", [seconds]) for what, seconds in phases]


def _path_without_ours() -> str:
    """A shell that sourced tools/env.sh has the project's engine on PATH, which would count as the user's own."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(one for one in folders if not Path(one).is_relative_to(ROOT))


def _demo(folder: Path) -> list[tuple[str, float]]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "STAMPWORKS_"))},
        "PATH": _path_without_ours(),
        "STAMPWORKS_CACHE": str(folder / "cache"),
        "STAMPWORKS_STATE": str(folder / "state"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "GOCACHE": str(folder / "go-build"),
        "GOMODCACHE": str(folder / "go-modules"),
    }
    clone = folder / "clone"
    phases: list[tuple[str, float]] = []
    begun = last = time.perf_counter()
    command = ["make", "demo"]
    with started(command, clone, environment, stderr=None) as process:
        assert process.stdout is not None  # noqa: S101  # for the type checker: it is a pipe
        running = ""
        for line in process.stdout:
            now = time.perf_counter()
            if ready := _READY.match(line):
                phases.append((ready[1], now - last))
                last = now
            elif begins := _COMMAND.match(line):
                if running:
                    phases.append((running, now - last))
                running, last = begins[1], now
        phases.append((running, time.perf_counter() - last))
        phases.append(("all of it", time.perf_counter() - begun))
    subprocess.run(
        ["make", "demo-down"], cwd=clone, env=environment, timeout=TIMEOUT_S, check=True, stdout=subprocess.DEVNULL
    )
    return phases
