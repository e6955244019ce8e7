"""uv, and the virtual environment that it fills from requirements.lock."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from . import system
from .progress import Step, StepError, run

# An index of one's own is often signed by an authority that only this machine knows. Older uv has the second name.
SYSTEM_CERTIFICATES = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}

VERSION = "components/stampworks/text/version.py"
PLUGIN = "components/stampworks/provider/plugin/pulumi-resource-stampworks"
INSTALLED = ("pyproject.toml", "requirements.lock", VERSION, PLUGIN)
"""Files that are copied into the environment or affect it; other files are read in place."""
COMPILED = "--compile-bytecode"
"""Compile packages at installation. Where Python may not write bytecode, as in many images, each start would compile
all imports again."""


def ensure_uv(step: Step, cache: Path) -> Path:
    """The uv on PATH, or a private one in the cache."""
    own = cache / "uv" / "bin" / "uv"
    for candidate in (shutil.which("uv"), own):
        # A shim of a version manager can be on PATH and lead nowhere: only one that answers counts.
        if candidate and _answers(candidate):
            step.note(str(candidate))
            return Path(candidate)
    if not importlib.util.find_spec("ensurepip"):
        _ensure_venv(step)
    step.say("installing uv")
    run([sys.executable, "-m", "venv", "--clear", cache / "uv"])
    run([cache / "uv" / "bin" / "pip", "install", "-q", "uv"])
    step.note(f"installed {own}")
    return own


def _ensure_venv(step: Step) -> None:
    """Check for the module venv, which Debian packages separately."""
    if not system.can_install():
        raise StepError(
            f"uv is not on PATH, and {sys.executable} cannot make the virtual environment to install it into.\n"
            "Install what is missing with\n"
            f"    {system.install_command(['python3-venv'])}\n"
            "Without it nothing here works, for every part needs its Python packages."
        )
    system.install(step, ["python3-venv"])


def ensure_environment(step: Step, root: Path, uv: Path) -> None:
    """Make .venv equal to requirements.lock, with the project itself as an editable install."""
    environment = root / ".venv"
    stamp = environment / "prepared"
    wanted = _digest(root)
    if (environment / "bin" / "python").exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    if not (environment / "bin" / "python").exists():
        step.say("making .venv")
        run([uv, "venv", "--no-python-downloads", "--clear", "--python", sys.executable, environment])
    target = environment / "bin" / "python"
    lock = root / "requirements.lock"
    step.say(f"installing {lock.read_text().count('==')} packages")
    run([uv, "pip", "sync", COMPILED, "--python", target, "--require-hashes", lock], env=SYSTEM_CERTIFICATES)
    run([uv, "pip", "install", "--python", target, "--no-deps", "--no-build-isolation", "--editable", root])
    stamp.write_text(wanted)
    step.note("installed from requirements.lock")


def _digest(root: Path) -> str:
    """Digest of everything from which the environment is built."""
    digest = hashlib.sha256(f"{sys.version}\n{root}\n{COMPILED}\n".encode())
    for name in INSTALLED:
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def _answers(uv: str | Path) -> bool:
    try:
        return subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
