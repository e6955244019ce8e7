"""The Pulumi engine: the user's own if it is new enough, else built once from its Go modules."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import golang, shared
from .golang import Version
from .progress import Step, StepError, run

MODULE = "github.com/pulumi/pulumi/pkg/v3"
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"
HOST = "pulumi-language-python"
EXECUTOR = "pulumi-language-python-exec"

_INSTEAD = """\
or put a pulumi of version {version} or later on PATH, which is then used instead.
Without it these still work: make lint, and after '. tools/env.sh' stampworks plan and
pytest -m 'not engine and not cluster'."""


def ensure_engine(step: Step, root: Path, cache: Path) -> None:
    """A `pulumi` is on the PATH that tools/env.sh sets: the user's own, or the project's behind .venv/engine."""
    version = pinned_version(root)
    link = root / ".venv" / "engine"
    if own := _own_pulumi(cache, at_least=version):
        link.unlink(missing_ok=True)
        step.note(f"your own {own}")
        return
    folder = cache / f"engine-{golang.dotted(version)}-{_digest(root, version)}"
    if not folder.exists():
        _build(step, root, version, folder)
    shared.use(folder, root, link, folder / "bin")
    step.note(golang.dotted(version))


def pinned_version(root: Path) -> Version:
    """The version to build, and the oldest allowed version of the user's own: both from tools/engine/go.mod."""
    pinned = re.search(rf"{re.escape(MODULE)} v([\d.]+)", (root / "tools/engine/go.mod").read_text())
    if not pinned:
        raise StepError(f"tools/engine/go.mod does not require {MODULE}")
    return golang.numbers(pinned[1])


def _own_pulumi(cache: Path, at_least: Version) -> Path | None:
    # tools/env.sh of any clone may have put the project's engine on PATH, which does not count as the user's.
    folders = os.environ.get("PATH", "").split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if not Path(folder).resolve().is_relative_to(cache.resolve()))
    pulumi = shutil.which("pulumi", path=path)
    if not pulumi or not shutil.which(HOST, path=path):
        return None
    said = subprocess.run(
        [pulumi, "version"],
        env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.match(r"v([\d.]+)", said.stdout)
    return Path(pulumi) if found and golang.numbers(found[1]) >= at_least else None


def _build(step: Step, root: Path, version: Version, folder: Path) -> None:
    """Build in a temporary folder and rename it, so that an interrupted build never looks complete."""
    go = golang.program("the Pulumi engine, once", _INSTEAD.format(version=golang.dotted(version)))
    source = root / "tools" / "engine"
    shared.clear(folder.parent, "engine")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="engine-unfinished-") as temporary:
        target = Path(temporary, "engine", "bin")
        target.mkdir(parents=True)
        golang.build(step, go, source, [f"{MODULE}/cmd/pulumi"], target, _flags(version))
        _copy_program(_sdk_folder(go, source) / "python" / "cmd" / EXECUTOR, target)
        _copy_program(source / HOST, target)
        target.parent.rename(folder)


def _sdk_folder(go: str, source: Path) -> Path:
    """Return the folder of the SDK's module in Go's cache, which holds the program that runs Python programs."""
    said: list[str] = []
    run([go, "list", "-m", "-f", "{{.Dir}}", SDK_MODULE], said.append, cwd=source, env=golang.toolchain())
    return Path(said[-1])


def _flags(version: Version) -> list[str]:
    linked = f"-X {SDK_MODULE}/go/common/version.Version=v{golang.dotted(version)}"
    return ["-trimpath", "-ldflags", f"-s -w {linked}"]


def _digest(root: Path, version: Version) -> str:
    """Digest of everything from which the folder is built. The version of Go does not matter."""
    digest = hashlib.sha256(" ".join(_flags(version)).encode())
    for name in ("go.mod", "go.sum", HOST):
        digest.update((root / "tools" / "engine" / name).read_bytes())
    return digest.hexdigest()[:12]


def _copy_program(source: Path, folder: Path) -> None:
    shutil.copyfile(source, folder / source.name)
    (folder / source.name).chmod(0o755)
