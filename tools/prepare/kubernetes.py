"""A Kubernetes for this machine, built once from Go modules: its programs, charts and CRDs.

Four folders below tools pin everything, because the versions of libraries differ: JobSet requires an older controller
library than Kueue, kwok libraries of a newer Kubernetes than the one built here, and CoreDNS newer ones of other
projects.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import golang, shared
from .progress import Step, StepError, run

MODULE = "k8s.io/kubernetes"
KUBE: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kube-apiserver": f"{MODULE}/cmd/kube-apiserver",
    "kube-controller-manager": f"{MODULE}/cmd/kube-controller-manager",
    "kube-scheduler": f"{MODULE}/cmd/kube-scheduler",
    "kubectl": f"{MODULE}/cmd/kubectl",
    "kubelet": f"{MODULE}/cmd/kubelet",
    "kueue": "sigs.k8s.io/kueue/cmd/kueue",
    "mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "trainer-controller-manager": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
}
JOBSET: Mapping[str, str] = {"jobset": "sigs.k8s.io/jobset"}
KWOK: Mapping[str, str] = {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}
DNS: Mapping[str, str] = {"coredns": "github.com/stampworks/stampworks/tools/dns"}
"""Program -> the package of its command."""
BUILT: Mapping[str, Mapping[str, str]] = {"kube": KUBE, "jobset": JOBSET, "kwok": KWOK, "dns": DNS}
"""Programs to build, by the folder that pins their modules."""

VERSIONS: Mapping[str, tuple[str, str]] = {
    "kubernetes": ("kube", MODULE),
    "kueue": ("kube", "sigs.k8s.io/kueue"),
    "jobset": ("jobset", "sigs.k8s.io/jobset"),
    "trainer": ("kube", "github.com/kubeflow/trainer/v2"),
    "mpi-operator": ("kube", "github.com/kubeflow/mpi-operator"),
}
"""Name of a version in a release -> the module that pins it, and its owner."""

SHARED: Mapping[str, tuple[str, str, str]] = {
    "kueue": ("kube", "sigs.k8s.io/kueue", "config/components"),
    "jobset": ("jobset", "sigs.k8s.io/jobset", "config/components"),
    "trainer": ("kube", "github.com/kubeflow/trainer/v2", "manifests/base"),
    "mpi-operator": ("kube", "github.com/kubeflow/mpi-operator", "manifests/base"),
    "kwok": ("kwok", "sigs.k8s.io/kwok", "kustomize/stage"),
    # For tests of our chart values: the machine room installs neither chart.
    "charts/kueue": ("kube", "sigs.k8s.io/kueue", "charts/kueue"),
    "charts/jobset": ("jobset", "sigs.k8s.io/jobset", "charts/jobset"),
}
"""Files of the programs, by their folder in here: the module, and the folder in it."""

_INSTEAD = (
    "Without it these still work: make demo, make lint, and after '. tools/env.sh' stampworks and pytest,\n"
    "which is all of make test except for what starts a Kubernetes or asks one: in tests/cluster and tests/schedulers."
)


def ensure_kubernetes(step: Step, root: Path, cache: Path) -> None:
    """Link .venv/kubernetes to a folder of the cache, with programs in bin and other files in share."""
    version = _required(root, *VERSIONS["kubernetes"])
    folder = cache / f"kubernetes-{version}-{_digest(root)}"
    if not folder.exists():
        _build(step, root, version, folder)
    shared.use(folder, root, root / ".venv" / "kubernetes", folder)
    step.note(version)


def _build(step: Step, root: Path, version: str, folder: Path) -> None:
    """Build in a temporary folder and rename it, so that an interrupted build never looks complete."""
    go = golang.program("a Kubernetes for this machine, once", _INSTEAD)
    shared.clear(folder.parent, "kubernetes")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="kubernetes-unfinished-") as temporary:
        target = Path(temporary, "kubernetes")
        (target / "bin").mkdir(parents=True)
        for name, programs in BUILT.items():
            source, flags = root / "tools" / name, _flags(version if name == "kube" else "")
            golang.build(step, go, source, list(programs.values()), Path(temporary, "built"), flags)
            for program, package in programs.items():
                Path(temporary, "built", _built_as(package)).rename(target / "bin" / program)
        for name, (pinned, module, inner) in SHARED.items():
            shutil.copytree(_folder(go, root / "tools" / pinned, module) / inner, target / "share" / name)
        versions = {part: _required(root, *pinned) for part, pinned in VERSIONS.items()}
        (target / "versions.json").write_text(json.dumps(versions))
        run(["chmod", "--recursive", "u+w", target])  # Go's modules are read-only, and such a folder could not be swept
        target.rename(folder)


def _flags(version: str = "") -> Sequence[str]:
    """Return linker flags that set the version. Otherwise a server reports v0.0.0, and refuses nodes that compare
    versions."""
    major, minor = version.split(".")[:2] if version else ("", "")
    said = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor} if version else {}
    linked = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in said.items()]
    return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *linked])]


def _built_as(package: str) -> str:
    """Return Go's name of a command: the last part of its package that is no version."""
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v\d+", parts[-1]) else parts[-1]


def _folder(go: str, source: Path, module: str) -> Path:
    said: list[str] = []
    run([go, "list", "-m", "-f", "{{.Dir}}", module], said.append, cwd=source, env=golang.toolchain())
    return Path(said[-1])


def _required(root: Path, folder: str, module: str) -> str:
    file = f"tools/{folder}/go.mod"
    found = re.search(rf"^\s*{re.escape(module)} v([\d.]+)( // indirect)?$", (root / file).read_text(), re.MULTILINE)
    if not found:
        raise StepError(f"{file} does not require {module}")
    return found[1]


def _digest(root: Path) -> str:
    """Digest of everything from which the folder is built, including the Go that compiles it."""
    said = [*BUILT.values(), SHARED, VERSIONS]
    digest = hashlib.sha256(f"{[sorted(each.items()) for each in said]} {_flags('1.0')}".encode())
    go = shutil.which("go")
    if go:
        digest.update(subprocess.run([go, "version"], cwd="/", capture_output=True, check=False).stdout)
    for source in BUILT:
        for file in sorted((root / "tools" / source).iterdir()):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
