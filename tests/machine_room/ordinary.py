"""An ordinary user for tests that root runs: a number with a name and subordinate ids, in a mount namespace alone."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from pathlib import Path

SUBORDINATE = 1_900_000_000
NUMBERS = itertools.count(2_000_000_000 + 100 * os.getpid())
"""Another user id each time: the kernel counts a user's processes, including recently ended ones."""
ROOT = Path(__file__).parents[2]


def ordinary(home: Path, *read: Path) -> list[str]:
    """Return a command prefix that runs as an ordinary user with this home; the user can read the given folders."""
    home.mkdir()
    if os.geteuid() != 0:
        return []
    number = next(NUMBERS)
    os.chown(home, number, number)
    known = Path("/etc/passwd").read_text()
    (home / "passwd").write_text(f"{known}ordinary:x:{number}:{number}::{home}:/bin/sh\n")
    (home / "subordinate").write_text(f"ordinary:{SUBORDINATE}:65536\n")
    steps = [["mount", "--bind", str(home / "passwd"), "/etc/passwd"]]
    steps += [["mount", "--bind", str(home / "subordinate"), f"/etc/{file}"] for file in ("subuid", "subgid")]
    steps += _opened([home, ROOT, Path(sys.prefix), Path(sys.base_prefix), *read])
    script = "".join(f"{shlex.join(step)}\n" for step in steps) + 'exec "$@"'
    become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]
    return ["unshare", "--mount", "sh", "-euc", script, "sh", *become]


def _opened(paths: list[Path]) -> list[list[str]]:
    """Let ordinary users enter these folders: a folder that only root may enter contains nothing else."""
    closed = {path: top for path in paths if (top := _closed(path))}
    kept = {path: f"/mnt/{number}" for number, path in enumerate(closed)}
    steps = [["mount", "-t", "tmpfs", "none", "/mnt"]]
    for path, place in kept.items():
        steps += [["mkdir", place], ["mount", "--bind", str(path), place]]
    steps += [["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(top)] for top in sorted(set(closed.values()))]
    for path, place in kept.items():
        steps += [["mkdir", "-p", str(path)], ["mount", "--bind", place, str(path)]]
    return steps


def _closed(path: Path) -> Path | None:
    return next((parent for parent in reversed(path.parents) if not parent.stat().st_mode & 0o001), None)
