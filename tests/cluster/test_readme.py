"""The commands of the README and of its next page, run in order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import run

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: Path) -> list[str]:
    """Return the commands of a page."""
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


README, START = blocks(ROOT / "README.md"), blocks(ROOT / "docs" / "start" / "local.md")
BLOCKS = [*README[:-1], *START[1:-1], README[-1]]
TIMEOUT_S = 1800


@pytest.mark.engine
@pytest.mark.cluster
def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    """All blocks run from top to bottom: a cluster is created, used, changed and destroyed, and the clone stays
    clean."""
    before = changed_files()
    # use the user's cache, because an engine takes minutes; processes of the user do not matter
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    environment["STAMPWORKS_STATE"] = str(tmp_path / "state")
    said = {}
    try:
        for block in BLOCKS[:-1]:
            said[block] = run(block, environment, TIMEOUT_S)
    finally:
        run(BLOCKS[-1], environment, TIMEOUT_S)
    use = next(text for block, text in said.items() if "stampworks run hostname" in block)
    assert {f"gpu-00{number}" for number in range(1, 5)} <= set(use.splitlines())
    assert not (tmp_path / "state" / "rooms" / "local").exists()
    assert changed_files() == before


def changed_files() -> str:
    command = ["git", "status", "--porcelain"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_blocks_are_the_ones_that_are_meant() -> None:
    """On both pages the first block creates the demo, and the last one removes it: the test above relies on it."""
    assert README[0] == START[0] == "make demo\n"
    assert README[-1] == START[-1] == "make demo-down\n"
