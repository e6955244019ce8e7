"""Programs of the host."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

SETTINGS = {
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


def run(argv: Sequence[str], given: str = "", timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. A missing program, or a late one, counts as failed."""
    try:
        return subprocess.run(
            argv,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**os.environ, **SETTINGS},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a program's errors."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
