"""Cost of a task on a host: tasks of site.yml on a cluster without changes, against plain tasks."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.rows import Row, compared
from bench.stack import NAME, ROOT, Stack, stack

NODES, PAIRS = 4, 8
SMALL = {"NODES": 1, "PAIRS": 1}
PLAIN = "- hosts: all\n  gather_facts: false\n  tasks:\n" + "    - command: 'true'\n" * 20
# Ansible as the configuration room starts it, with the recap it prints for people
PLAY = """
import json, os, sys
from pathlib import Path
from stampworks import operations
from stampworks.configuration import player
folder, playbook = Path(sys.argv[1]), Path(sys.argv[2])
player.prepare(folder, json.loads((folder / "work.json").read_text())["inventory"])
environment = os.environ | player.environment(folder, Path(sys.argv[3]))
command = ["ansible-playbook", "-i", str(folder / "inventory.yml"), "-e", f"@{folder}/secrets.json", str(playbook)]
reach = operations.members("local", sys.argv[4]).reach
os.execvpe(reach[0], [*reach, *command], environment)
"""


def rows() -> list[Row]:
    with stack(NODES) as found:
        found.up_until_idle()
        playbooks = ROOT / "playbooks"
        [playbook] = [item["inputs"] for item in found.resources() if item["type"].endswith(":Playbook")]
        plain = found.folder / "plain.yml"
        plain.write_text(PLAIN)
        return [
            compared(
                "Ansible per task and host: site.yml against plain tasks",
                "ms",
                lambda: _per_task_ms(found, playbook, playbooks / "site.yml"),
                lambda: _per_task_ms(found, playbook, plain),
                target=None,
                pairs=PAIRS,
            )
        ]


def _per_task_ms(found: Stack, inputs: Mapping[str, Any], playbook: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        (folder / "work.json").write_text(f'{{"inventory": {inputs["inventory"]}}}')
        (folder / "secrets.json").write_text(_plain_text(inputs["secrets"]))
        os.chmod(folder / "secrets.json", 0o600)  # noqa: PTH101
        started = time.perf_counter()
        said = found.run(
            sys.executable, "-c", PLAY, str(folder), str(playbook), str(ROOT / "playbooks"), NAME, timeout_s=600
        )
        elapsed_s = time.perf_counter() - started
    return elapsed_s * 1000 / sum(int(count) for count in re.findall(r"\bok=(\d+)", said))


def _plain_text(secrets: Mapping[str, Any]) -> str:
    return str(secrets["plaintext"]) if "plaintext" in secrets else str(secrets)
