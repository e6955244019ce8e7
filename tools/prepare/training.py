"""Additional virtual environments: torch for tests of training and of recipes, MkDocs for the site."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from . import shared
from .progress import Step, StepError, run
from .python_packages import COMPILED, SYSTEM_CERTIFICATES

LOCK = "tests/training/requirements.lock"
RECIPES = "workloads/recipes/requirements.lock"
SITE = "tools/site/requirements.lock"
NO_TORCH = (
    "torch and what else the training workload is tested with cannot be installed: {}\n"
    "It takes 6 GB in the cache, once, and an index of Python packages that can be reached.\n"
    "Without it these still work: make demo, make lint, and after '. tools/env.sh' stampworks and pytest,\n"
    "which is all of make test except for tests/training."
)
NO_SITE = (
    "MkDocs and its theme cannot be installed: {}\n"
    "They take 60 MB in the cache, once, and an index of Python packages that can be reached.\n"
    "Without them everything but make docs works; the pages in docs/ can be read as they are."
)


def ensure_training(step: Step, root: Path, uv: Path, cache: Path) -> None:
    """Link .venv/training to an environment of the cache that equals the lock of these tests."""
    _ensure(step, root, uv, cache, "training", LOCK, NO_TORCH)


def ensure_recipes(step: Step, root: Path, uv: Path, cache: Path) -> None:
    """Link .venv/recipes to an environment of the cache that equals the lock of the recipes."""
    _ensure(step, root, uv, cache, "recipes", RECIPES, NO_TORCH)


def ensure_site(step: Step, root: Path, uv: Path, cache: Path) -> None:
    """Link .venv/site to an environment of the cache that equals the lock of the site."""
    _ensure(step, root, uv, cache, "site", SITE, NO_SITE)


def _ensure(step: Step, root: Path, uv: Path, cache: Path, name: str, lock: str, failure: str) -> None:
    folder = cache / f"{name}-{sys.version_info.major}.{sys.version_info.minor}-{_digest(root, lock)}"
    if not folder.exists():
        _install(step, root / lock, uv, folder, failure)
        step.note("installed from its lock")
    shared.use(folder, root, root / ".venv" / name, folder)


def _install(step: Step, lock: Path, uv: Path, folder: Path, failure: str) -> None:
    """Install into a temporary folder and rename it, so that an existing one is complete."""
    shared.clear(folder.parent, folder.name.split("-")[0])
    unfinished = shared.unfinished(folder)
    try:
        run([uv, "venv", "--no-python-downloads", "--relocatable", "--python", sys.executable, unfinished])
        step.say(f"installing {lock.read_text().count('==')} packages")
        target = unfinished / "bin" / "python"
        run([uv, "pip", "sync", COMPILED, "--python", target, "--require-hashes", lock], env=SYSTEM_CERTIFICATES)
    except StepError as failed:
        raise StepError(failure.format(failed)) from None
    unfinished.rename(folder)


def _digest(root: Path, lock: str) -> str:
    """Digest of everything from which the environment is built."""
    return hashlib.sha256(f"{sys.version}\n{COMPILED}\n".encode() + (root / lock).read_bytes()).hexdigest()[:12]
