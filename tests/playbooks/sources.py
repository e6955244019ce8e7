"""Stand-in for the source of programs that are built on nodes: a git repository of a test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

IDENTITY = ["-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false"]
PLUGIN = {
    "Makefile": "spank_pyxis.so: plugin.c\n\t$(CC) -shared -fpic -o $@ $<\n",
    "plugin.c": "#include <slurm/spank.h>\nSPANK_PLUGIN(pyxis, 1);\n",
}
"""A SPANK plugin in the place of pyxis, built against the headers of the node's Slurm."""
TOOL = {
    "Makefile": 'build/%_perf: tool.c\n\tmkdir -p build\n\t$(CC) -D"WHO=\\"$$(id -un)\\"" -o $@ $<\n',
    "tool.c": '#include <stdio.h>\nint main(void) { puts("first, built by " WHO); }\n',
}


def source(name: str, folder: Path, files: dict[str, str], command: list[str], makes: list[str]) -> dict[str, Any]:
    """Create the repository if needed, add one commit, and return its `sources` entry for a release."""
    repository = folder / f"{name}.git"
    repository.mkdir(exist_ok=True)
    git(repository, "init", "--quiet", "--initial-branch=main")
    for file, text in files.items():
        (repository / file).write_text(text)
    git(repository, "add", "--all")
    git(repository, *IDENTITY, "commit", "--quiet", "--message", "test")
    head = git(repository, "rev-parse", "HEAD")
    there = f"file:///exports/shared/{repository.name}"
    return {"name": name, "repository": there, "tag": "v1", "commit": head, "command": command, "makes": makes}


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()
