"""The README's commands do what it says, in its order; the tree it draws is the one there is."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
TIMEOUT_S = 1800


@pytest.mark.engine
@pytest.mark.cluster
def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    """All blocks of the README, top to bottom: a cluster comes, is used, and goes, and the clone stays clean."""
    before = changed_files()
    # the cache is the user's, for an engine takes minutes; whatever the user has running is none of ours
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    environment["STAMPWORKS_STATE"] = str(tmp_path / "state")
    said = {}
    try:
        for block in BLOCKS[:-1]:
            said[block] = run(block, environment)
    finally:
        run(BLOCKS[-1], environment)
    use = next(text for block, text in said.items() if "stampworks run -- hostname" in block)
    assert {f"gpu-00{number}" for number in range(1, 5)} <= set(use.splitlines())
    assert not (tmp_path / "state" / "rooms" / "local").exists()
    assert changed_files() == before


def run(block: str, environment: dict[str, str], folder: Path = ROOT, prefix: Sequence[str] = ()) -> str:
    """What a block prints; it stops at the first command that fails, as a reader would."""
    command = [*prefix, "bash", "-e", "-c", block]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block}\nended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def changed_files() -> str:
    command = ["git", "status", "--porcelain"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_blocks_are_the_ones_that_are_meant() -> None:
    """The first makes the demo, the last takes it down: the test above relies on it."""
    assert BLOCKS[0] == "make demo\n"
    assert BLOCKS[-1] == "make demo-down\n"


def test_the_tree_names_what_is_there() -> None:
    """Every entry of the drawn tree exists, and no top folder or room is left out."""
    [tree] = re.findall(r"^```\n(Pulumi\.yaml.*?)^```", README, re.MULTILINE | re.DOTALL)
    named = set(entries(tree))
    assert not [path for path in named if "<" not in path and not (ROOT / path).exists()]
    rooms = {
        f"components/stampworks/{path.name}" for path in (ROOT / "components/stampworks").iterdir() if is_room(path)
    }
    tops = {line.split("/")[0] for line in tracked() if "/" in line and not line.startswith(".")}
    assert not {path for path in rooms if not any(name.startswith(path) for name in named)}
    assert tops <= {name.split("/")[0] for name in named}


def is_room(path: Path) -> bool:
    return path.is_dir() and any(path.rglob("*.py"))


def tracked() -> list[str]:
    command = ["git", "ls-files"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def entries(tree: str) -> list[str]:
    """The drawn tree as paths; several names of one line share its folder."""
    found: list[str] = []
    folders: list[str] = []
    for line in tree.splitlines():
        names, depth = re.split(r" {2,}", line.strip())[0], (len(line) - len(line.lstrip())) // 2
        for name in names.split(", "):
            found.append("".join(folders[:depth]) + name.rstrip("/"))
        folders[depth:] = [names if names.endswith("/") else ""]
    return found
