"""What operators publish of their objects, out of their Go modules: tests hold what we render to it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from . import golang, shared
from .progress import Step, StepError, run

PINNED: Mapping[str, tuple[str, str, str, str]] = {
    "trainer": (
        "github.com/kubeflow/trainer/v2",
        "v2.1.0",
        "h1:jRABD9ZYToamNH2atHze3L/VC/v6KCAqUEqsOQOjVTg=",
        "manifests/base/crds/trainer.kubeflow.org_*.yaml",
    ),
    "mpi-operator": (
        "github.com/kubeflow/mpi-operator",
        "v0.7.0",
        "h1:ID1eyzAFOMofgynEvfy4//S3q7Ra1OSexrggb1VcC1o=",
        "manifests/base/kubeflow.org_*.yaml",
    ),
}
"""By the folder it is in here: which module, of which version and content, and which files of it."""

_INSTEAD = "Without it all works but tests/schedulers/test_schemas.py."


def ensure_schemas(step: Step, root: Path, cache: Path) -> None:
    """.venv/schemas leads to a folder of the cache with a folder of each operator's definitions."""
    versions = "-".join(version.removeprefix("v") for _, version, _, _ in PINNED.values())
    folder = cache / f"schemas-{versions}"
    if not folder.exists():
        _fetch(step, folder)
    shared.use(folder, root, root / ".venv" / "schemas", folder)


def _fetch(step: Step, folder: Path) -> None:
    """Beside the final place and renamed, so that what is there is whole."""
    go = golang.program("what operators publish of their objects", _INSTEAD)
    shared.clear(folder.parent, "schemas")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="schemas-unfinished-") as temporary:
        whole = Path(temporary, "schemas")
        for name, (module, version, content, files) in PINNED.items():
            step.say(f"{module} {version}")
            said: list[str] = []
            run(
                [go, "mod", "download", "-json", f"{module}@{version}"],
                said.append,
                cwd=Path(temporary),
                env=golang.toolchain(),
            )
            found = json.loads("\n".join(said))
            if found["Sum"] != content:
                raise StepError(f"{module} {version} is not what it was: {found['Sum']}, not {content}")
            (whole / name).mkdir(parents=True)
            for file in sorted(Path(found["Dir"]).glob(files)):
                shutil.copyfile(file, whole / name / file.name)
        whole.rename(folder)
