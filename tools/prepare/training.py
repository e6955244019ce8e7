"""The virtual environment that tests of the training workload run in: torch, which nothing else here needs."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from . import shared
from .progress import Step, StepError, run
from .python_packages import COMPILED, SYSTEM_CERTIFICATES

LOCK = "tests/training/requirements.lock"


def ensure_training(step: Step, root: Path, uv: Path, cache: Path) -> None:
    """.venv/training leads to an environment in the cache that holds exactly what the lock of these tests says."""
    folder = cache / f"training-{sys.version_info.major}.{sys.version_info.minor}-{_digest(root)}"
    if not folder.exists():
        _install(step, root / LOCK, uv, folder)
        step.note("installed from its lock")
    shared.use(folder, root, root / ".venv" / "training", folder)


def _install(step: Step, lock: Path, uv: Path, folder: Path) -> None:
    """Install beside the final place and rename, so that what is there is whole."""
    shared.clear(folder.parent, "training")
    unfinished = shared.unfinished(folder)
    try:
        run([uv, "venv", "--no-python-downloads", "--relocatable", "--python", sys.executable, unfinished])
        step.say(f"installing {lock.read_text().count('==')} packages, some gigabytes")
        target = unfinished / "bin" / "python"
        run([uv, "pip", "sync", COMPILED, "--python", target, "--require-hashes", lock], env=SYSTEM_CERTIFICATES)
    except StepError as failed:
        raise StepError(
            f"torch and what else the training workload is tested with cannot be installed: {failed}\n"
            "It takes 6 GB in the cache, once, and an index of Python packages that can be reached.\n"
            "Without it these still work: make demo, make lint, and after '. tools/env.sh' stampworks and pytest,\n"
            "which is all of make test except for tests/training."
        ) from None
    unfinished.rename(folder)


def _digest(root: Path) -> str:
    """Changes with everything that the environment is made from."""
    return hashlib.sha256(f"{sys.version}\n{COMPILED}\n".encode() + (root / LOCK).read_bytes()).hexdigest()[:12]
