"""What a cloud's Kubernetes comes with, here: Kueue, JobSet, and kwok, which stands for the nodes that do not exist."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from stampworks.clouds.local.room import daemons, files
from stampworks.clouds.local.room.daemons import Daemon
from stampworks.clouds.local.room.kubernetes.kubectl import Kubectl
from stampworks.clouds.local.room.programs import manifests, program
from stampworks.clouds.local.room.room import Room

SIMULATED = "kwok.x-k8s.io/node"
"""The annotation of a node that kwok stands for."""
SECONDS = "stampworks/simulated-seconds"
"""The annotation of a pod that says after how long it is done, on such a node; without it it runs until it is ended."""

_PORTS = {"kueue": 9443, "jobset": 9444}
_OWN: Mapping[str, Mapping[str, Any]] = {
    "kueue": {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        "fairSharing": {"enable": True},  # of what is borrowed, by the weights of the teams
        # no job of theirs starts past its quota because it names no queue
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "stampworks"}},
    },
    "jobset": {"apiVersion": "config.jobset.x-k8s.io/v1alpha1"},
}
_QUIET = "--zap-log-level=error"
"""What they have to say of each renewed lease and each object would fill a disk."""
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_KINDS = frozenset(
    {"jobs", "jobsets", "clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies", "workloads"}
)
"""What is looked at here when it is made: webhooks of kinds that nobody has installed would only fail."""


NAMES = ("kueue", "jobset", "kwok")
"""Of the daemons."""


def parts(folder: Path) -> list[Daemon]:
    """The daemons; their settings have to be written."""
    config = {"KUBECONFIG": str(folder / "addons.conf")}
    read = (folder / "addons.conf", folder / "run/webhooks/tls.crt")
    # Kueue looks for the certificates of its metrics in /etc and nowhere else: its own /etc has them.
    own_etc = 'mount -t overlay -o "ro,lowerdir=$1:/etc" overlay /etc && shift && exec "$@"'
    return [
        Daemon(
            "kueue",
            (program("kueue"), f"--config={folder / 'kueue.yaml'}", "--feature-gates=VisibilityOnDemand=false", _QUIET),
            config,
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
            "kwok",
            (
                program("kwok"),
                f"--kubeconfig={folder / 'addons.conf'}",
                f"--config={folder / 'kwok.yaml'}",
                "--manage-all-nodes=false",
                f"--manage-nodes-with-annotation-selector={SIMULATED}=fake",
                "--node-lease-duration-seconds=40",
                "--server-address=127.0.0.1:10247",
                "--v=WARN",
            ),
            reads=(folder / "kwok.yaml", folder / "addons.conf"),
        ),
    ]


def write_settings(folder: Path) -> None:
    """What the daemons read when they start."""
    certificates = folder / "pki" / "webhooks"
    for place in (folder / "etc/kueue/metrics/certs", folder / "run/webhooks"):
        files.make_directory(place, 0o700)
        for name in ("crt", "key"):
            files.write(place / f"tls.{name}", certificates.with_suffix(f".{name}").read_text(), 0o600)
    for name, own in _OWN.items():
        port = _PORTS[name]
        settings = {
            **own,
            "kind": "Configuration",
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder / "run/webhooks")},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{port + 100}"},
            "metrics": {"bindAddress": f"127.0.0.1:{port + 200}"},
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 300, "burst": 600},
        }
        files.write(folder / f"{name}.yaml", json.dumps(settings))
    files.write(folder / "kwok.yaml", "\n---\n".join(_stages()))


def _stages() -> Iterator[str]:
    """How what does not exist goes through its life."""
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


def install(room: Room, folder: Path, asked: Kubectl) -> None:
    """Their kinds, then the daemons, then what looks at objects of these kinds; the caller holds the room's lock."""
    for name in _PORTS:
        asked.apply_folder(f"cannot install {name}", manifests(name) / "crd/bases")
    # kubectl gives up at once where a kind is so new that the server has said nothing of it yet
    wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]
    asked.until(room, (), "the server does not take the kinds of kueue and jobset", wait)
    daemons.start(room, parts(folder))
    for name in _PORTS:
        asked.apply(f"cannot install {name}", _webhooks(name, folder))
    _await(room, asked)


def _webhooks(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """As its developers publish them, but called at an address of the loopback: no pod runs what answers them."""
    authority = base64.b64encode((folder / "pki/ca.crt").read_bytes()).decode()
    for found in yaml.safe_load_all((manifests(name) / "webhook/manifests.yaml").read_text()):
        if not found or found["kind"] not in _WEBHOOKS:
            continue
        found["metadata"]["name"] = f"{name}-{found['kind'].removesuffix('WebhookConfiguration').lower()}"
        kept = []
        for hook in found["webhooks"]:
            kinds = {each.partition("/")[0] for rule in hook["rules"] for each in rule["resources"]}
            if kinds <= _KINDS:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{_PORTS[name]}{path}"
                kept.append({**hook, "clientConfig": {"url": url, "caBundle": authority}})
        yield {**found, "webhooks": kept}


def _await(room: Room, asked: Kubectl) -> None:
    """Until each has looked at an object that is then not made."""
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
    for name, probe in (("kueue", flavor), ("jobset", _jobset())):
        create = ["create", "--dry-run=server", "-f", "-"]
        asked.until(room, NAMES, f"{name} does not answer", create, json.dumps(probe))


def _jobset() -> dict[str, Any]:
    pod = {"containers": [{"name": "probe", "image": "probe"}], "restartPolicy": "Never"}
    job = {"template": {"spec": {"template": {"spec": pod}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"replicatedJobs": [{"name": "probe", "replicas": 1, **job}]},
    }
