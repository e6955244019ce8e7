"""Published objects and charts, from Go modules: tests compare the project's manifests with them."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from . import golang, shared
from .progress import Step, StepError, run


class Module(NamedTuple):
    """A Go module at a version, with the sum of its content."""

    path: str
    version: str
    content: str
    """The checksum in go.sum."""


_EFA = Module(
    "github.com/aws/eks-charts",
    "v0.0.243-0.20260821194545-743f98a89b5b",
    "h1:ZgB85AeVHImIIK40RM7Hf2CGQzNeDkfAWAdpB61wL98=",
)
_FEATURES = Module("sigs.k8s.io/node-feature-discovery", "v0.18.3", "h1:q5/qpyxrasI/F6838lflFNGAUszpMNRuFwornPLYdxQ=")
_JOBSET = Module("sigs.k8s.io/jobset", "v0.11.0", "h1:1r2uTNQmylnqG/WCSSDADgNkHryvyUaCNCOgvSPWpN8=")
_LWS = Module("sigs.k8s.io/lws", "v0.8.0", "h1:DdhJ8QabwTfWgbgaHH2gdf8twliioHaoSfmDXRYEVU0=")
_METRICS = Module("sigs.k8s.io/metrics-server", "v0.9.0", "h1:nlqqZ2H0Xfko8eJC/1qaNVVT17hu4rxndkOi22KTZ4w=")
_MPI = Module("github.com/kubeflow/mpi-operator", "v0.8.0", "h1:22EccUiO4VDooG4TooesdE8o8euGVj89PIRhiP24SRE=")
_TRAINER = Module("github.com/kubeflow/trainer/v2", "v2.2.0", "h1:whChZckEtycLo1UKH/M0hiNaCUozbLvf9JrgmMv+TAg=")

PINNED = (
    ("schemas/trainer", _TRAINER, "manifests/base/crds/trainer.kubeflow.org_*.yaml"),
    ("schemas/mpi-operator", _MPI, "manifests/base/kubeflow.org_*.yaml"),
    ("charts", _EFA, "stable/aws-efa-k8s-device-plugin"),
    ("charts", _FEATURES, "deployment/helm/node-feature-discovery"),
    ("charts", _METRICS, "charts/metrics-server"),  # the chart of 0.8.1, which this version contains
    ("charts", _TRAINER, "charts/kubeflow-trainer"),
    # the versions that Trainer's chart names: Helm renders nothing without them, wanted or not
    ("charts/kubeflow-trainer/charts", _JOBSET, "charts/jobset"),
    ("charts/kubeflow-trainer/charts", _LWS, "charts/lws"),
)
"""Target folder, module, and files or folders."""

_INSTEAD = "Without it all works but tests in tests/schedulers."


def ensure_published(step: Step, root: Path, cache: Path) -> None:
    """.venv/published leads to a folder of the cache."""
    digest = hashlib.sha256(json.dumps(PINNED).encode()).hexdigest()[:12]
    folder = cache / f"published-{len(PINNED)}-{digest}"
    if not folder.exists():
        _fetch(step, folder)
    shared.use(folder, root, root / ".venv" / "published", folder)


def _fetch(step: Step, folder: Path) -> None:
    """Download into a temporary folder and rename it, so that an existing one is complete."""
    go = golang.program("what others publish of their objects, and their charts", _INSTEAD)
    shared.clear(folder.parent, "published")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="published-unfinished-") as temporary:
        whole = Path(temporary, "published")
        modules: dict[Module, Path] = {}
        for to, module, files in PINNED:
            if module not in modules:
                modules[module] = _downloaded(step, go, module, temporary)
            (whole / to).mkdir(parents=True, exist_ok=True)
            for found in sorted(modules[module].glob(files)):
                _copy(found, whole / to / found.name)
        whole.rename(folder)


def _downloaded(step: Step, go: str, module: Module, folder: str) -> Path:
    """Return the folder of a downloaded module, with its content verified."""
    step.say(f"{module.path} {module.version}")
    said: list[str] = []
    command = [go, "mod", "download", "-json", f"{module.path}@{module.version}"]
    run(command, said.append, cwd=Path(folder), env=golang.toolchain())
    found = json.loads("\n".join(said))
    if found["Sum"] != module.content:
        raise StepError(f"{module.path} {module.version} is not what it was: {found['Sum']}, not {module.content}")
    return Path(found["Dir"])


def _copy(found: Path, to: Path) -> None:
    """Copy a tree without its modes: Go creates read-only modules, and files are added to the copy."""
    if not found.is_dir():
        shutil.copyfile(found, to)
        return
    to.mkdir(exist_ok=True)
    for each in found.iterdir():
        _copy(each, to / each.name)
