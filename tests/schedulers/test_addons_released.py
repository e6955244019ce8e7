"""Add-ons as releases of Pulumi's own plugin: created, found unchanged, updated and deleted, from a real chart
repository on a real control plane. kwok simulates a node and its pods."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from stampworks.plan import AddOn
from stampworks.schedulers import addons

from tests.cluster.kubernetes import OWN
from tests.project import Project
from tests.schedulers.apiserver import BIN, ApiServer, api_server, free_port, running
from tests.schedulers.test_addons import DECLARED, ELSEWHERE, HELM, chart, planned

pytestmark = [pytest.mark.engine, pytest.mark.long]

NEVER_GONE = ("kueue",)
"""Add-ons with aggregated roles: Kubernetes' controller creates them again during a deletion, so that Helm waits in
vain."""
PROGRAM = Path(__file__).parent / "releases" / "__main__.py"
PROJECT = "name: test\nruntime: {{name: python, options: {{virtualenv: {environment}}}}}\nmain: stacks\n"
ROOM = {"cpu": "64", "memory": "64Gi", "pods": "110"}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "labels": {"stampworks/pool": "head"}},
    "status": {"allocatable": ROOM, "capacity": ROOM},
}
STAGES = BIN.parent / "share" / "kwok"
UNASKED = "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook"
"""Option that disables webhooks: no controller runs here, so they would refuse objects."""
LIVES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
"""kwok's published stages for nodes and pods."""


def released(example: str) -> dict[str, AddOn]:
    """Return the add-ons that Helm installs, and whose charts are available here."""
    there = (one for one in planned(example).scheduler.addons if one.by == "helm")
    return {one.name: one for one in there if one.name not in ELSEWHERE}


@dataclass
class Releases(Project):
    limit_s: ClassVar[float] = 600
    server: ApiServer

    def environment(self) -> dict[str, str]:
        found = super().environment()
        return {**found, "PATH": f"{OWN}{os.pathsep}{found['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])}

    def configure(self, **told: str) -> None:
        for name, value in told.items():
            self.passes("config", "set", "--secret", name, value)

    def there(self) -> dict[str, tuple[str, str]]:
        """Return Helm's releases: chart with version, and status."""
        listed = json.loads(self.server.run("helm", "list", "--all", "--all-namespaces", "--output=json"))
        return {one["name"]: (one["chart"], one["status"]) for one in listed}

    def told_by_helm(self, one: AddOn) -> dict[str, Any]:
        words = ("get", "values", one.name, f"--namespace={one.namespace}", "--output=json")
        found: dict[str, Any] = json.loads(self.server.run("helm", *words))
        return found


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """Serve the charts of all examples, at their versions."""
    folder = tmp_path / "repository"
    for one in {one.name: one for example in DECLARED for one in released(example).values()}.values():
        words = ["package", str(chart(one)), "--version", one.version, "--destination", str(folder)]
        subprocess.run([HELM, *words], check=True, capture_output=True)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        subprocess.run([HELM, "repo", "index", folder, "--url", url], check=True, capture_output=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield url
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiServer]:
    """Yield a server with the options of a test."""
    folder = tmp_path / "control-plane"
    folder.mkdir()
    lives = [file.read_text() for each in LIVES for file in sorted((STAGES / each).glob("*-*.yaml"))]
    (folder / "kwok.yaml").write_text("\n---\n".join(lives))
    with api_server(folder, *getattr(request, "param", ())) as server, contextlib.ExitStack() as parts:
        kwok = f"127.0.0.1:{free_port()}"
        config, alone = f"--kubeconfig={server.kubeconfig}", ("--leader-elect=false", "--secure-port=0")
        accounts = f"--service-account-private-key-file={folder / 'service-accounts.key'}"
        for words in (
            ["kube-controller-manager", config, *alone, accounts, "--controllers=*,-nodeipam"],
            ["kube-scheduler", config, *alone],
            ["kwok", config, f"--config={folder / 'kwok.yaml'}", "--manage-all-nodes", f"--server-address={kwok}"],
        ):
            parts.enter_context(running(folder, words))
        server.run("kubectl", "create", "--filename=-", text=json.dumps(NODE))
        yield server


@pytest.fixture
def project(tmp_path: Path, repository: str, control_plane: ApiServer) -> Releases:
    folder = tmp_path / "project"
    (folder / "stacks").mkdir(parents=True)
    shutil.copy(PROGRAM, folder / "stacks")
    (folder / "Pulumi.yaml").write_text(PROJECT.format(environment=sys.prefix))
    found = Releases(folder, control_plane)
    found.init()
    found.configure(repository=repository, kubeconfig=control_plane.kubeconfig.read_text())
    return found


def made(project: Releases, example: str, wanted: dict[str, AddOn]) -> None:
    """Declared releases, which a refresh finds unchanged."""
    project.configure(example=example, charts=" ".join(wanted))
    project.passes("up", "--yes", "--skip-preview")
    assert project.there() == {each: (f"{one.chart}-{one.version}", "deployed") for each, one in wanted.items()}
    for each, one in wanted.items():
        assert project.told_by_helm(one) == addons.values(planned(example), one), each
    project.passes("refresh", "--yes", "--skip-preview", "--expect-no-changes")


@pytest.mark.parametrize("name", sorted({name for example in DECLARED for name in released(example)}))
def test_pulumis_own_plugin_makes_a_release(project: Releases, name: str) -> None:
    """The release is created after its dependencies, alone."""
    for example in (each for each in DECLARED if name in released(each)):  # with different values
        there = released(example)
        made(project, example, {each: there[each] for each in (*there[name].needs, name)})
        project.passes("preview", "--expect-no-changes")
    if name not in NEVER_GONE:
        project.passes("destroy", "--yes", "--skip-preview")
        assert project.there() == {}


@pytest.mark.parametrize("control_plane", [(UNASKED,)], indirect=True, ids=["no webhook is asked"])
@pytest.mark.parametrize("example", DECLARED)
def test_all_releases_of_a_cluster_are_made_in_one_up(project: Releases, example: str) -> None:
    """Releases come in the order of their dependencies; the next `up` changes nothing."""
    made(project, example, released(example))
    assert project.passes("up", "--yes", "--skip-preview", "--expect-no-changes")
