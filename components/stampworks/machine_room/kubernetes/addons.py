"""Add-ons of the local Kubernetes: Kueue, JobSet, and kwok, which simulates nodes that do not exist.

On request it also has Kubeflow's Trainer and its MPI operator.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import yaml

from stampworks.machine_room import daemons, files
from stampworks.machine_room.daemons import Daemon
from stampworks.machine_room.kubernetes.kubectl import Kubectl
from stampworks.machine_room.programs import manifests, program
from stampworks.machine_room.room import Room

SIMULATED = "kwok.x-k8s.io/node"
"""Annotation of a node that kwok simulates."""
SECONDS = "stampworks/simulated-seconds"
"""Annotation of a pod with the seconds until it is done, on a simulated node. Without it the pod runs until it is
ended."""

ASKED: Mapping[str, str] = {"trainer": "trainjobs", "mpi-operator": "mpijobs"}
"""Optional add-ons -> the jobs that they support."""
_TITLES = {"kueue": "Kueue", "jobset": "JobSet", "trainer": "Trainer", "mpi-operator": "the MPI operator"}
_DEFINITIONS = {
    "kueue": "crd/bases/*.yaml",
    "jobset": "crd/bases/*.yaml",
    "trainer": "crds/trainer.kubeflow.org_*.yaml",
    "mpi-operator": "kubeflow.org_*.yaml",
}
"""Files with the custom resource definitions, among the files that the developers publish."""
_PORTS = {"kueue": 9443, "jobset": 9444, "trainer": 9445}
_OWN: Mapping[str, Mapping[str, Any]] = {
    "kueue": {"internalCertManagement": {"enable": False}},
    "jobset": {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "internalCertManagement": {"enable": False}},
    "trainer": {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "certManagement": {"enable": False}},
}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
"""Leases by which Kubernetes knows that a node is alive."""
_QUIET = "--zap-log-level=error"
"""Log level: messages about each renewed lease and each object would fill a disk."""
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_KINDS = frozenset(
    {
        *("jobs", "jobsets", "clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies", "workloads"),
        *("trainingruntimes", "clustertrainingruntimes"),
    }
)
"""Resources whose webhooks are installed. Webhooks of resources that are not installed would only fail."""


_ALWAYS, _KWOK = ("kueue", "jobset"), "kwok"
NAMES = (*_ALWAYS, *ASKED, _KWOK)
"""Names of all daemons that may run."""


def names(asked_for: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the daemons that run with these optional add-ons."""
    return tuple(name for name in NAMES if name not in ASKED or name in asked_for)


def parts(folder: Path, asked_for: Sequence[str]) -> list[Daemon]:
    """Return the daemons. Their settings have to be written first."""
    found = [*_always(folder), *_trainer(folder)]
    return [each for each in found if each.name in names(asked_for)]


def _always(folder: Path) -> list[Daemon]:
    config = {"KUBECONFIG": str(folder / "addons.conf")}
    read = (folder / "addons.conf", folder / "run/webhooks/tls.crt")
    # Kueue reads the certificates of its metrics only from /etc. It gets an /etc of its own with these certificates
    # alone: with a mount below /etc an ordinary user may not overlay it.
    own_etc = 'mount -o bind,ro "$1" /etc && shift && exec "$@"'
    return [
        Daemon(
            "kueue",
            (program("kueue"), f"--config={folder / 'kueue.yaml'}", "--feature-gates=VisibilityOnDemand=false", _QUIET),
            {**config, "HOME": str(folder)},  # otherwise it would look for its user in /etc
            ("unshare", "--mount", "sh", "-euc", own_etc, "sh", str(folder / "etc")),
            (folder / "kueue.yaml", *read),
        ),
        Daemon(
            "jobset",
            (program("jobset"), f"--config={folder / 'jobset.yaml'}", _QUIET),
            config,
            reads=(folder / "jobset.yaml", *read),
        ),
        Daemon(
            _KWOK,
            (
                program("kwok"),
                f"--kubeconfig={folder / 'addons.conf'}",
                f"--config={folder / 'kwok.yaml'}",
                "--manage-all-nodes=false",
                f"--manage-nodes-with-annotation-selector={SIMULATED}=fake",
                # renewed in a quarter of that time; without renewal a node is lost after 50 s
                "--node-lease-duration-seconds=80",
                "--server-address=127.0.0.1:10247",
                "--v=WARN",
            ),
            reads=(folder / "kwok.yaml", folder / "addons.conf"),
        ),
    ]


def _trainer(folder: Path) -> list[Daemon]:
    config, settings = {"KUBECONFIG": str(folder / "addons.conf")}, folder / "trainer.yaml"
    certificates = folder / _OF_TRAINER
    return [
        Daemon(
            "trainer",
            (program("trainer-controller-manager"), f"--config={settings}", _QUIET),
            {**config, "TMPDIR": str(folder / "run/trainer")},
            reads=(settings, folder / "addons.conf", certificates / "tls.crt"),
        ),
        Daemon(
            "mpi-operator",
            (
                program("mpi-operator"),
                "--lock-namespace=kube-system",
                *("--kube-api-qps=300", "--kube-api-burst=600"),
                *("--logtostderr=false", "--log_file=/dev/null", "--stderrthreshold=ERROR"),
            ),
            config,
            reads=(folder / "addons.conf",),
        ),
    ]


_OF_TRAINER = "run/trainer/k8s-webhook-server/serving-certs"
"""Folder of its webhooks' certificate, which it searches only below the folder for temporary files."""


def write_settings(folder: Path, kueue: Mapping[str, Any], asked_for: Sequence[str]) -> None:
    """Write the files that the daemons read when they start. `kueue` has the settings that all clouds share."""
    certificates = folder / "pki" / "webhooks"
    for place in (folder / "etc/kueue/metrics/certs", folder / "run/webhooks", folder / _OF_TRAINER):
        files.make_directory(place, 0o700)
        for name in ("crt", "key"):
            files.write(place / f"tls.{name}", certificates.with_suffix(f".{name}").read_text(), 0o600)
    for name in (name for name in names(asked_for) if name in _PORTS):
        port = _PORTS[name]
        certificate = {"certDir": str(folder / "run/webhooks")} if name in _ALWAYS else {}
        settings = {
            **_OWN[name],
            **(kueue if name == "kueue" else {}),
            "kind": "Configuration",
            "webhook": {"host": "127.0.0.1", "port": port, **certificate},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{port + 100}"},
            "metrics": {"bindAddress": f"127.0.0.1:{port + 200}"},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 300, "burst": 600},
        }
        files.write(_settings_file(folder, name), json.dumps(settings))
    files.write(folder / "kwok.yaml", "\n---\n".join(_stages()))


def _settings_file(folder: Path, name: str) -> Path:
    """Return the settings file of an add-on. It exists from before the start of its daemon until its webhooks are
    removed, so that a killed command can be completed."""
    return folder / f"{name}.yaml"


def _stages() -> Iterator[str]:
    """Yield the stages of simulated nodes and pods."""
    published = manifests("kwok")
    for name in ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease"):
        yield (published / f"{name}.yaml").read_text()
    for name in ("pod-ready", "pod-delete"):
        yield (published / "pod/fast" / f"{name}.yaml").read_text()
    ending = yaml.safe_load((published / "pod/fast/pod-complete.yaml").read_text())
    said = f'.metadata.annotations["{SECONDS}"]'
    ending["spec"]["selector"]["matchExpressions"].append({"key": said, "operator": "Exists"})
    ending["spec"]["delay"] = {"durationMilliseconds": 1000, "durationFrom": {"expressionFrom": said}}
    yield yaml.safe_dump(ending)


def install(room: Room, folder: Path, asked: Kubectl, asked_for: Sequence[str]) -> str:
    """Install the resource definitions, then the daemons, then the webhooks. The caller holds the room's lock.

    Return the names of the add-ons that answer. The definitions of an add-on that is no longer requested stay, because
    its objects would be lost with them.
    """
    there = [name for name in names(asked_for) if name in _DEFINITIONS]
    authority = base64.b64encode((folder / "pki/ca.crt").read_bytes()).decode()
    for name in there:
        asked.apply(f"cannot install {name}", _kinds(name, authority))
    # kubectl gives up at once on a kind that the server does not list yet
    wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]
    asked.until(room, (), f"the server does not accept the kinds of {' and '.join(there)}", wait)
    _remove(room, folder, asked, [name for name in ASKED if name not in asked_for])
    for daemon in parts(folder, asked_for):
        if daemon.name == _KWOK and not daemons.runs(room, daemon):
            _let_go(room, asked)
        daemons.start(room, [daemon])
    kinds = _KINDS | {ASKED[name] for name in asked_for}
    for name in there:
        if name in _PORTS:
            asked.apply(f"cannot install {name}", _webhooks(name, authority, kinds))
    _await(room, asked, there)
    *first, last = (_TITLES[name] for name in there)
    return f"{', '.join(first)} and {last}"


def _remove(room: Room, folder: Path, asked: Kubectl, left: Sequence[str]) -> None:
    """Remove the webhooks and daemons of add-ons that are no longer requested.

    Webhooks without a daemon would refuse every object, also if the daemon ended with an earlier server.
    """
    for name in left:
        settings = _settings_file(folder, name)
        if settings.exists():
            hooks = [f"{kind.lower()}/{_hook(name, kind)}" for kind in _WEBHOOKS]
            asked.said(f"cannot remove {name}", ["delete", "--ignore-not-found", *hooks])
            settings.unlink()
    daemons.end(room, left)


def _let_go(room: Room, asked: Kubectl) -> None:
    """End kwok and delete its leases.

    Each kwok has another name, and takes over a node only after the old lease has ended. Kubernetes and Kueue would
    give up the node and its gang earlier. Kubelets renew their leases within seconds.
    """
    daemons.end(room, [_KWOK])
    asked.said("cannot hand over the simulated nodes to another controller", ["delete", "--raw", _LEASES])


def _hook(name: str, kind: str) -> str:
    return f"{name}-{kind.removesuffix('WebhookConfiguration').lower()}"


def _kinds(name: str, authority: str) -> Iterator[dict[str, Any]]:
    """Yield the resource definitions published by the developers.

    For definitions with several versions, the add-on's webhook converts the stored one.
    """
    published = manifests(name)
    converted = {patch["metadata"]["name"]: patch["spec"]["conversion"] for patch in _conversions(name)}
    for found in map(_read, sorted(published.glob(_DEFINITIONS[name]))):
        if conversion := converted.get(found["metadata"]["name"]):
            path = conversion["webhook"]["clientConfig"]["service"]["path"]
            conversion["webhook"]["clientConfig"] = _client(name, authority, path)
            found["spec"]["conversion"] = conversion
        yield found


def _conversions(name: str) -> Iterator[dict[str, Any]]:
    if name == "kueue":  # the other add-ons have one version of each kind
        kinds = manifests(name) / "crd"
        for patch in _read(kinds / "kustomization.yaml")["patches"]:
            yield _read(kinds / patch["path"])


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(
        file.read_text(), yaml.CSafeLoader
    )  # the manifests have megabytes: use the C loader
    return found


def _client(name: str, authority: str, path: str) -> dict[str, str]:
    """Return the client settings of a webhook: an address of the loopback, because no pod runs the daemon."""
    return {"url": f"https://127.0.0.1:{_PORTS[name]}{path}", "caBundle": authority}


def _webhooks(name: str, authority: str, kinds_there: Set[str]) -> Iterator[dict[str, Any]]:
    """Yield the webhooks as the developers publish them, for installed kinds."""
    for found in yaml.load_all((manifests(name) / "webhook/manifests.yaml").read_text(), yaml.CSafeLoader):
        if not found or found["kind"] not in _WEBHOOKS:
            continue
        found["metadata"]["name"] = _hook(name, found["kind"])
        kept = []
        for hook in found["webhooks"]:
            kinds = {each.partition("/")[0] for rule in hook["rules"] for each in rule["resources"]}
            if kinds <= kinds_there:
                client = _client(name, authority, hook["clientConfig"]["service"]["path"])
                kept.append({**hook, "clientConfig": client})
        yield {**found, "webhooks": kept}


def _await(room: Room, asked: Kubectl, there: Sequence[str]) -> None:
    """Wait until each webhook answers for an object that is created as a dry run."""
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
    probes = {"kueue": flavor, "jobset": _jobset(), "trainer": _runtime()}
    for name in there:
        if name in probes:
            create = ["create", "--dry-run=server", "-f", "-"]
            asked.until(room, there, f"{name} does not answer", create, json.dumps(probes[name]))


def _jobset() -> dict[str, Any]:
    pod = {"containers": [{"name": "probe", "image": "probe"}], "restartPolicy": "Never"}
    job = {"template": {"spec": {"template": {"spec": pod}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"replicatedJobs": [{"name": "probe", "replicas": 1, **job}]},
    }


def _runtime() -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"template": {"spec": _jobset()["spec"]}},
    }
