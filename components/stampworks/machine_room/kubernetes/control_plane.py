"""The control plane of a Kubernetes in a room: its parts as daemons, and the certificates between them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from stampworks.machine_room import RoomError, daemons, files, programs
from stampworks.machine_room.commands import run
from stampworks.machine_room.daemons import Daemon
from stampworks.machine_room.errors import AGAIN
from stampworks.machine_room.kubernetes import addons, certificates
from stampworks.machine_room.kubernetes.certificates import Party
from stampworks.machine_room.kubernetes.kubectl import Kubectl, command
from stampworks.machine_room.programs import HINT, program
from stampworks.machine_room.room import Progress, Room, of_cluster

API_PORT, _ETCD_PORT = 6443, 2379
_ADMINISTRATORS, _NODES_TO_BE = "system:masters", "system:bootstrappers"
_DOOR = "kubernetes-api"
_SERVER = ("etcd", "kube-apiserver")
_NAMES = (*_SERVER, "kube-controller-manager", "kube-scheduler")
"""Names of the daemons, each after those that it calls."""
_DNS = "coredns"
"""Name service for pods, on clusters whose nodes run pods."""
_DNS_CONFIG = """\
cluster.local in-addr.arpa {{
    errors
    kubernetes {{
        kubeconfig "{config}"
    }}
}}
"""
_ANYBODY = "echo 53 >/proc/sys/net/ipv4/ip_unprivileged_port_start"
"""Command that lets a daemon without privileges serve port 53."""
_RATE = ("--kube-api-qps=300", "--kube-api-burst=600")
"""Requests per second of a controller to the server. With the default of 20, large clusters would wait."""


@dataclass(frozen=True)
class Addresses:
    """Addresses and ranges of a Kubernetes in a room."""

    gateway: str
    """Address of the room, at which nodes reach the server."""
    services: str
    """Range of services."""
    pods: str = ""
    """Range of pods; empty if no node runs pods."""
    pods_of_node: int = 0
    """Addresses of the pod range for a node."""


@dataclass(frozen=True)
class ControlPlaneState:
    """State of a control plane."""

    kubeconfig: str
    bootstrap: str
    """Kubeconfig with which a machine asks to become a node."""
    authority: str
    """Digest of the certificate authority. Certificates of an earlier authority are no longer accepted."""
    identity: str
    """Identity of the Kubernetes. Another identity has none of these objects."""
    drift: tuple[str, ...]


def ensure(
    cluster: str,
    claim: str,
    addresses: Addresses,
    progress: Progress,
    kueue: Mapping[str, Any],
    asked_for: Sequence[str] = (),
) -> ControlPlaneState:
    """Start the parts that do not run, and the optional add-ons that are requested.

    The room has to run. `kueue` has the settings of Kueue that all clouds share.
    """
    room = of_cluster(cluster)
    with room.locked():
        room.claim(claim)
        return _ensure(room, addresses, kueue, asked_for, progress)


def read(cluster: str, addresses: Addresses, asked_for: Sequence[str] = ()) -> ControlPlaneState | None:
    """Return the state of the control plane; None when there is none, or its room has ended."""
    room = of_cluster(cluster)
    folder = _folder(room)
    if room.process is None or not (folder / "admin.conf").exists():
        return None
    drift = [f"{name} does not run" for name in daemons.dead(room, _names(addresses, asked_for))]
    if daemons.dead(room, [_DOOR]):
        drift.append("nothing leads to its server from outside the room")
    if certificates.outdated(folder / "pki", _parties(addresses)):
        drift.append("some of its certificates have ended, or will within a month, or name other addresses")
    return _state(folder, tuple(drift))


def end(cluster: str, claim: str) -> None:
    """End the control plane, and remove its data."""
    room = of_cluster(cluster)
    with room.locked():
        if not room.is_ours(claim):
            return
        if room.process is not None:
            daemons.end(room, (*addons.NAMES, _DNS, *reversed(_NAMES), _DOOR))
        files.remove_tree(_folder(room), room.name)


def answers(cluster: str) -> bool:
    """Whether the parts that answer requests run. Otherwise waiting for an answer is useless."""
    room = of_cluster(cluster)
    return room.process is not None and not daemons.dead(room, (*_SERVER, _DOOR))


def other_versions(versions: Mapping[str, str]) -> list[str]:
    """Describe each program of this machine whose version is not the release's."""
    try:
        built = programs.versions()
    except RoomError as error:
        return [str(error)]
    return [
        f"{name} {version} is not what this machine has, which is {built.get(name, 'none')}: {HINT}"
        for name, version in versions.items()
        if built.get(name) != version
    ]


def kubectl(cluster: str) -> Kubectl:
    """Return a client of a cluster's server, with the rights of an administrator."""
    room = of_cluster(cluster)
    return Kubectl(room.name, _folder(room) / "admin.conf")


def access(cluster: str) -> tuple[str, ...]:
    """Return the start of a kubectl command for the cluster; empty if none runs."""
    room = of_cluster(cluster)
    config = _folder(room) / "admin.conf"
    return command(config) if room.process is not None and config.exists() else ()


def user_config(cluster: str, user: str) -> str:
    """Return the kubeconfig of a user with the rights of the user's name; empty if no server runs.

    The certificate lasts a year. It is worth nothing if the name has no rights.
    """
    if not access(cluster):
        return ""
    room = of_cluster(cluster)
    folder, name = _folder(room), f"user-{user}"
    with room.locked():
        certificates.ensure(folder / "pki", [Party(name, user)])
        server = json.loads((folder / "admin.conf").read_text())["clusters"][0]["cluster"]["server"]
        return _config(folder, name, server)


def _ensure(
    room: Room, addresses: Addresses, kueue: Mapping[str, Any], asked_for: Sequence[str], progress: Progress
) -> ControlPlaneState:
    folder = _folder(room)
    files.make_directory(folder, 0o700)
    certificates.ensure(folder / "pki", _parties(addresses))
    for name in ("controller-manager", "scheduler", "addons"):
        _write_config(folder, name, f"https://127.0.0.1:{API_PORT}")
    addons.write_settings(folder, kueue, asked_for)
    parts = _parts(room, addresses)
    if daemons.dead(room, _SERVER):
        # Clients would take minutes to notice that the server is back: restart them, too.
        daemons.end(room, [name for name in (*_NAMES, _DNS, *addons.NAMES) if name not in _SERVER])
    daemons.start(room, [each for each in parts if each.name in _SERVER])
    port = daemons.open_door(room, _DOOR, "127.0.0.1", API_PORT)
    _write_config(folder, "admin", f"https://127.0.0.1:{port}")
    asked = Kubectl(room.name, folder / "admin.conf")
    asked.until(room, _SERVER, "its server is not ready", ["get", "--raw", "/readyz"])
    daemons.start(room, parts)  # the others give up if the server is not ready within ten seconds
    if addresses.pods:
        _write_config(folder, "bootstrap", f"https://{addresses.gateway}:{API_PORT}")
        asked.apply("cannot let nodes join", _joining())
        _answer_for_names(room, folder)
    else:
        daemons.end(room, [_DNS])
    progress("Kubernetes answers")
    there = addons.install(room, folder, asked, asked_for)
    _see_that_they_run(room, _names(addresses, asked_for))
    progress(f"{there} answer")
    return _state(folder, ())


def _answer_for_names(room: Room, folder: Path) -> None:
    """Start the name service. Pods find each other by the names of services, as on every cloud."""
    config = folder / "coredns.conf"
    files.write(config, _DNS_CONFIG.format(config=folder / "addons.conf"))
    run([*room.inside, "sh", "-c", _ANYBODY], room.name, "cannot have the room answer for names", timeout=20)
    argv = (program("coredns"), "-conf", str(config))
    daemons.start(room, [Daemon(_DNS, argv, reads=(config, folder / "addons.conf"))])


def _names(addresses: Addresses, asked_for: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the daemons that run."""
    return (*_NAMES, *([_DNS] if addresses.pods else []), *addons.names(asked_for))


def _see_that_they_run(room: Room, parts: Sequence[str]) -> None:
    """Raise RoomError for a part that has ended.

    Some parts are idle until pods need them, so that only the next look would notice.
    """
    for name in daemons.dead(room, parts):
        raise RoomError(room.name, f"{name} has ended", daemons.last_words(room, name), AGAIN)


def _state(folder: Path, drift: tuple[str, ...]) -> ControlPlaneState:
    bootstrap = folder / "bootstrap.conf"
    said = bootstrap.read_text() if bootstrap.exists() else ""
    # The signing key of service accounts is created once, and deleted with all other data of the cluster.
    authority, identity = (_digest(folder / "pki" / name) for name in ("ca.crt", "accounts.key"))
    return ControlPlaneState((folder / "admin.conf").read_text(), said, authority, identity, drift)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


def _parties(addresses: Addresses) -> list[Party]:
    first_service = str(IPv4Network(addresses.services)[1])
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return [
        Party("apiserver", "kube-apiserver", hosts=(*names, "127.0.0.1", addresses.gateway, first_service)),
        Party("kubelet-client", "kube-apiserver-kubelet-client", _ADMINISTRATORS),
        Party("controller-manager", "system:kube-controller-manager"),
        Party("scheduler", "system:kube-scheduler"),
        Party("admin", "stampworks", _ADMINISTRATORS),
        Party("bootstrap", "stampworks-node", _NODES_TO_BE),
        Party("addons", "stampworks-addons", _ADMINISTRATORS),
        Party("webhooks", "webhooks", hosts=("127.0.0.1",)),
    ]


def _parts(room: Room, addresses: Addresses) -> list[Daemon]:
    folder = _folder(room)
    pki = folder / "pki"

    def secured(name: str, port: int) -> list[str]:
        """Return the options that all controllers share."""
        return [
            f"--kubeconfig={folder / name}.conf",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'run' / name}",  # otherwise it writes to the system's folder
            *_RATE,
        ]

    return [
        Daemon(
            "etcd",
            (
                program("etcd"),
                "--name=head",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{_ETCD_PORT}",
                f"--advertise-client-urls=http://127.0.0.1:{_ETCD_PORT}",
                f"--listen-peer-urls=http://127.0.0.1:{_ETCD_PORT + 1}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{_ETCD_PORT + 1}",
                f"--initial-cluster=head=http://127.0.0.1:{_ETCD_PORT + 1}",
                "--unsafe-no-fsync",  # data outlives its process, which is enough for a cluster on one machine
                "--log-level=warn",
            ),
        ),
        Daemon(
            "kube-apiserver",
            (
                program("kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{_ETCD_PORT}",
                "--bind-address=0.0.0.0",  # the room's network cannot be reached from outside
                f"--secure-port={API_PORT}",
                f"--advertise-address={addresses.gateway}",
                "--endpoint-reconciler-type=none",
                f"--service-cluster-ip-range={addresses.services}",
                f"--cert-dir={folder / 'run' / 'apiserver'}",
                f"--tls-cert-file={pki / 'apiserver.crt'}",
                f"--tls-private-key-file={pki / 'apiserver.key'}",
                f"--client-ca-file={pki / 'ca.crt'}",
                f"--kubelet-certificate-authority={pki / 'ca.crt'}",
                f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
                f"--kubelet-client-key={pki / 'kubelet-client.key'}",
                "--kubelet-preferred-address-types=InternalIP",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={pki / 'accounts.key'}",
                f"--service-account-signing-key-file={pki / 'accounts.key'}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",  # as on clouds: a node has rights only for itself
                "--anonymous-auth=false",
                "--allow-privileged=true",
            ),
            reads=tuple(pki / name for name in ("ca.crt", "apiserver.crt", "kubelet-client.crt", "accounts.key")),
        ),
        Daemon(
            "kube-controller-manager",
            (
                program("kube-controller-manager"),
                *secured("controller-manager", 10257),
                f"--service-account-private-key-file={pki / 'accounts.key'}",
                f"--root-ca-file={pki / 'ca.crt'}",
                f"--cluster-signing-cert-file={pki / 'ca.crt'}",
                f"--cluster-signing-key-file={pki / 'ca.key'}",
                "--use-service-account-credentials",
                *_ranges(addresses),
            ),
            reads=(pki / "ca.crt", pki / "accounts.key", folder / "controller-manager.conf"),
        ),
        Daemon(
            "kube-scheduler",
            (program("kube-scheduler"), *secured("scheduler", 10259)),
            reads=(folder / "scheduler.conf",),
        ),
    ]


def _ranges(addresses: Addresses) -> list[str]:
    """Return the options for controllers and pod ranges.

    Without pods on nodes no ranges are given out, because simulated nodes need no address. The ttl controller is off
    then, too: it writes to all nodes whenever their number grows a lot.
    """
    if not addresses.pods:
        return ["--controllers=*,-nodeipam,-ttl-controller"]
    prefix = 32 - (addresses.pods_of_node - 1).bit_length()
    of_node = f"--node-cidr-mask-size={prefix}"
    return ["--controllers=*", "--allocate-node-cidrs", f"--cluster-cidr={addresses.pods}", of_node]


def _joining() -> Iterator[dict[str, Any]]:
    """Yield the rights for joining: the bootstrap certificate gets a node's own, which can be renewed."""
    clients = "system:certificates.k8s.io:certificatesigningrequests"
    for name, role, group in (
        ("join", "system:node-bootstrapper", _NODES_TO_BE),
        ("approve", f"{clients}:nodeclient", _NODES_TO_BE),
        ("renew", f"{clients}:selfnodeclient", "system:nodes"),
    ):
        kind = "rbac.authorization.k8s.io"
        yield {
            "apiVersion": f"{kind}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"stampworks-{name}"},
            "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": kind, "kind": "Group", "name": group}],
        }


def _write_config(folder: Path, name: str, server: str) -> None:
    files.write(folder / f"{name}.conf", _config(folder, name, server), 0o600)


def _config(folder: Path, name: str, server: str) -> str:
    """Write a kubeconfig: the server's address and certificate, and the client's own."""

    def data(file: str) -> str:
        return base64.b64encode((folder / "pki" / file).read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{name}.crt"), "client-key-data": data(f"{name}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "cluster", "user": name}}],
        "current-context": name,
    }
    return json.dumps(config)


def _folder(room: Room) -> Path:
    return room.folder / "kubernetes"
