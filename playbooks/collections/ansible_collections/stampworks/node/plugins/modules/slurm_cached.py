"""Keeps the configuration that slurmd has fetched as the controller has it.

Under configless Slurm the node's programs read slurmd's copy. A controller that gets another configuration sends it to
every slurmd by itself, a moment later; a copy that stays different was changed by somebody else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import answering, write

DOCUMENTATION = """
module: slurm_cached
short_description: Keep slurmd's copy of the configuration
options:
  files:
    description: The controller's configuration, text by file name.
    type: dict
    required: true
  directory: {description: Where slurmd keeps its copy., type: str, default: /run/slurm/conf}
  limit_s: {description: How long a new configuration may take to arrive., type: float, default: 10}
"""

SENT = ("slurm.conf", "gres.conf", "topology.conf", "cgroup.conf", "plugstack.conf")
"""The files that a controller sends to its nodes."""


def work(check: bool, files: Mapping[str, str], directory: str, limit_s: float) -> dict[str, Any]:
    home = Path(directory)
    until = time.monotonic() + (0 if check else limit_s)
    while (differing := differences(home, files)) and time.monotonic() < until:
        time.sleep(0.1)
    if not check:
        for name in differing:
            write(home / name, files[name].encode())
    drift = [f"{home / name} {'differs' if (home / name).exists() else 'is missing'}" for name in differing]
    return {"changed": bool(differing), "drift": drift}


def differences(home: Path, files: Mapping[str, str]) -> list[str]:
    if not home.is_dir():
        return []  # slurmd has fetched no configuration yet; another check looks whether it runs
    return [name for name in SENT if name in files and text_of(home / name) != files[name]]


def text_of(path: Path) -> str | None:
    return path.read_text(errors="replace") if path.exists() else None


answer = answering(work)
