"""Pulumi's own plugin for Kubernetes, built once from Go modules: long tests hold the stand-in to it."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

from . import golang, shared
from .progress import Step, StepError

MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
FILES = ("go.mod", "go.sum", "main.go")

_INSTEAD = "Without it make test works, and every other long test."
_FLAGS = ("-trimpath", "-ldflags", "-s -w")


def ensure_plugin(step: Step, root: Path, cache: Path) -> None:
    """.venv/plugin leads to a folder of the cache with the program that the engine looks for on PATH."""
    source = root / "tools" / "plugin"
    # The module has no releases, only revisions of its repository.
    version = re.search(rf"{re.escape(MODULE)} v[\d.]+-(\d{{8}})\d*-([0-9a-f]{{12}})", (source / "go.mod").read_text())
    if not version:
        raise StepError(f"tools/plugin/go.mod does not require {MODULE}")
    folder = cache / f"plugin-{version[1]}-{version[2]}-{_digest(source)}"
    if not folder.exists():
        _build(step, source, folder)
    shared.use(folder, root, root / ".venv" / "plugin", folder)
    step.note(f"{version[2]} of {version[1]}")


def _build(step: Step, source: Path, folder: Path) -> None:
    """Build in a temporary folder and rename it, so that an interrupted build never looks complete."""
    go = golang.program("Pulumi's own plugin for Kubernetes, once", _INSTEAD)
    shared.clear(folder.parent, "plugin")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="plugin-unfinished-") as temporary:
        target = Path(temporary, "plugin")
        target.mkdir()
        golang.build(step, go, source, ["."], target, _FLAGS)  # named by the end of its module path
        target.rename(folder)


def _digest(source: Path) -> str:
    """Digest of everything from which the folder is built. The version of Go does not matter."""
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for name in FILES:
        digest.update((source / name).read_bytes())
    return digest.hexdigest()[:12]
