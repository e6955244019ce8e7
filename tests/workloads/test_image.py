"""The image of the programs, built from their folder alone and started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from stampworks import configuration, planning
from stampworks.declaration import load_value
from stampworks.provider.node_image import ensure_node_image
from stampworks.qualification import read

from tests.workloads.conftest import ROOT, SCHEMA

pytestmark = [pytest.mark.long, pytest.mark.cluster]  # the node image is the user's, for it takes minutes

PROGRAMS = ROOT / "workloads"
DECLARATION = {"version": 1, "name": "image", "cloud": "local", "network": {"cidr": "10.99.0.0/16"}}
POOLS = [{"name": "gpu", "machine": "sim-h100", "count": 1}]
Buildah = Callable[..., str]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """buildah with separate storage."""
    if os.geteuid():
        pytest.skip("needs root")
    assert shutil.which("buildah"), "buildah is not on PATH: python3 -m tools.prepare --long"
    folder = tmp_path_factory.mktemp("buildah")
    own = ["buildah", "--root", str(folder / "root"), "--runroot", str(folder / "run"), "--storage-driver", "overlay"]

    def run(*argv: str | Path) -> str:
        done = subprocess.run([*own, *argv], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{argv[0]}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    yield run
    run("rm", "--all")
    run("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def built(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, on the base system of nodes and with the release's packages, so that no network is needed."""
    release = planning.plan(load_value({**DECLARATION, "pools": POOLS}, "test")).release
    nodes = ensure_node_image(release, configuration.install_digest(), print)
    sources = tmp_path_factory.mktemp("base") / "release.list"
    sources.write_text("deb [trusted=yes] file:/exports/.packages ./\n")
    base = buildah("from", "scratch")
    buildah("add", "--quiet", base, nodes.layers[-1], "/")
    buildah("copy", "--quiet", base, sources, "/etc/apt/sources.list.d/")
    buildah("commit", "--quiet", base, "localhost/base")
    chosen = ["--isolation", "chroot", "--volume", f"{nodes.packages}:/exports/.packages:ro"]
    buildah("bud", *chosen, "--build-arg", "BASE=localhost/base", "--tag", "localhost/workloads", PROGRAMS)
    return "localhost/workloads"


def test_a_base_must_be_chosen(buildah: Buildah) -> None:
    """Version and accelerators of torch are not guessed."""
    with pytest.raises(AssertionError, match=r"bud: .*BASE"):
        buildah("bud", "--isolation", "chroot", PROGRAMS)


def test_the_image_runs_the_programs(buildah: Buildah, built: str) -> None:
    """The entry point starts them with torch, and they answer as on a node."""
    container = buildah("from", built)
    entry = json.loads(buildah("inspect", container))["OCIv1"]["config"]["Entrypoint"]
    options = {"matmul": {"size": 64, "seconds": 0.1}}
    arguments = ["validation", "limits", "matmul", "--out", "/tmp/out", "--options", json.dumps(options)]
    said = buildah("run", "--isolation", "chroot", container, "--", *entry, *arguments)
    results = {result.workload: result for result in read(said).results}
    assert set(results) == {"limits", "matmul"}
    assert [result.problems for result in results.values()] == [(), ()]
    assert {value.quantity for value in results["matmul"].values} == {"matmul_fp32", "matmul_mismatches"}
    shown = buildah("run", "--isolation", "chroot", container, "--", "cat", "/tmp/out/matmul.0.json")
    jsonschema.validate(json.loads(shown), SCHEMA)


def test_the_image_can_train(buildah: Buildah, built: str) -> None:
    """The other workload starts in the same way, with all files that it reads."""
    container = buildah("from", built)
    program = "import training.rank, training.data, fsspec, sys; from training.data import Stream"
    buildah("run", "--isolation", "chroot", container, "--", "python3", "-c", program)
    assert "settings" in buildah("run", "--isolation", "chroot", container, "--", "python3", "-m", "training", "--help")
