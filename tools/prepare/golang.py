"""Programs that are built from Go modules, each pinned by the go.mod and go.sum of a folder below tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import system
from .progress import Step, StepError, run

Version = tuple[int, ...]

GO_MIN = (1, 21)
"""The first Go that downloads a later one itself if a module requires it."""
_UNSEEN = "-gcflags=all=-dwarf=false"
"""Omit debug information, which is never used here: without generating it, a build takes a tenth less time."""


def program(what: str, instead: str) -> str:
    """Return the Go on PATH. Any version that can download the required one is sufficient."""
    go = shutil.which("go")
    found = "is not on PATH"
    if go:
        said = subprocess.run([go, "version"], cwd="/", capture_output=True, text=True, check=False).stdout
        told = re.search(r"go([\d.]+)", said)
        if told and numbers(told[1]) >= GO_MIN:
            return go
        found = f"of version {dotted(GO_MIN)} or later is needed, and {go} says '{said.strip()}'"
    raise StepError(
        f"go {found}. It builds {what}. Install it with\n"
        f"    {system.install_command(['golang-go'])}      (Debian 12: add '-t bookworm-backports')\n"
        f"{instead}"
    )


def build(step: Step, go: str, source: Path, packages: Sequence[str], target: Path, flags: Sequence[str]) -> None:
    """Fetch the modules, compile the commands in these packages, and show how far it is."""
    count = _download(step, go, source, packages)
    compiled = 0

    def counted(line: str) -> bool:
        """Return whether a line is progress: packages are compiled in parallel, so that names of others follow an
        error."""
        nonlocal compiled
        if is_name := re.fullmatch(r"[\w.~/-]+", line) is not None:
            compiled += 1
            step.say(f"{compiled} of {count} packages compiled")
        return is_name

    step.say(f"compiling {count} packages")
    run([go, "build", "-v", _UNSEEN, *flags, "-o", f"{target}/", *packages], counted, cwd=source, env=toolchain())


def toolchain() -> dict[str, str]:
    """Return the environment of the Go toolchain: no C compiler, and later toolchains are downloaded unless the user
    forbids it. Some distributions turn that off."""
    return {"CGO_ENABLED": "0", "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "auto")}


def _download(step: Step, go: str, source: Path, packages: Sequence[str]) -> int:
    """Download the modules, and return the number of packages to compile."""
    modules = found = 0

    def count(line: str) -> None:
        nonlocal modules, found
        if line.startswith("go: downloading"):
            modules += 1
            step.say(f"{modules} modules downloaded")
        elif not line.startswith("go:"):
            found += 1

    step.say("looking for the modules")
    run([go, "list", "-deps", *packages], count, cwd=source, env=toolchain())
    return found


def numbers(said: str) -> Version:
    """Return a version as numbers, for comparisons."""
    return tuple(int(number) for number in said.strip(".").split("."))


def dotted(version: Version) -> str:
    """Return a version as text."""
    return ".".join(str(number) for number in version)
