"""The control plane of a Kubernetes in a room: its parts as daemons, and how they know each other."""

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
"""Of the daemons, each after what it asks."""
_DNS = "coredns"
"""Where nodes run pods: what these ask for each other's addresses."""
_DNS_CONFIG = """\
cluster.local in-addr.arpa {{
    errors
    kubernetes {{
        kubeconfig "{config}"
    }}
}}
"""
_ANYBODY = "echo 53 >/proc/sys/net/ipv4/ip_unprivileged_port_start"
"""No daemon has a privilege, and names are asked for at this port."""
_RATE = ("--kube-api-qps=300", "--kube-api-burst=600")
"""What a controller may ask of the server each second: the usual 20 would be what large clusters wait for."""


@dataclass(frozen=True)
class Addresses:
    gateway: str
    """Of the room, where nodes reach the server."""
    services: str
    """The range of services."""
    pods: str = ""
    """The range of pods; empty where no node runs any."""
    pods_of_node: int = 0
    """How many addresses of it a node takes."""


@dataclass(frozen=True)
class ControlPlaneState:
    """A control plane as it was found."""

    kubeconfig: str
    bootstrap: str
    """With what a node asks to become one."""
    authority: str
    """Which one vouches for everybody: another one, and whatever an earlier one has vouched for is believed no more."""
    identity: str
    """Which Kubernetes it is: another one knows nothing of what this one was given."""
    drift: tuple[str, ...]


def ensure(
    cluster: str,
    claim: str,
    addresses: Addresses,
    progress: Progress,
    kueue: Mapping[str, Any],
    asked_for: Sequence[str] = (),
) -> ControlPlaneState:
    """Starts what does not run, and of add-ons those that not every cluster has where they are asked for; the room has
    to be there. `kueue` is what Kueue is told wherever it runs."""
    room = of_cluster(cluster)
    with room.locked():
        room.claim(claim)
        return _ensure(room, addresses, kueue, asked_for, progress)


def read(cluster: str, addresses: Addresses, asked_for: Sequence[str] = ()) -> ControlPlaneState | None:
    """What is there now; None when there is none, or its room has ended."""
    room = of_cluster(cluster)
    folder = _folder(room)
    if room.process is None or not (folder / "admin.conf").exists():
        return None
    drift = [f"{name} does not run" for name in daemons.dead(room, _names(addresses, asked_for))]
    if daemons.dead(room, [_DOOR]):
        drift.append("nothing leads to its server from outside the room")
    if certificates.outdated(folder / "pki", _parties(addresses)):
        drift.append("some of its certificates have ended, or will within a month, or name other addresses")
    return _found(folder, tuple(drift))


def end(cluster: str, claim: str) -> None:
    """Ends it, and forgets all that it knew."""
    room = of_cluster(cluster)
    with room.locked():
        if not room.is_ours(claim):
            return
        if room.process is not None:
            daemons.end(room, (*addons.NAMES, _DNS, *reversed(_NAMES), _DOOR))
        files.remove_tree(_folder(room), room.name)


def answers(cluster: str) -> bool:
    """Whether what it takes to be asked is there: else nobody should wait for an answer."""
    room = of_cluster(cluster)
    return room.process is not None and not daemons.dead(room, (*_SERVER, _DOOR))


def other_versions(versions: Mapping[str, str]) -> list[str]:
    """Where what was built for this machine is of another version than the release asks for."""
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
    """Asks the server of a cluster, as its administrator."""
    room = of_cluster(cluster)
    return Kubectl(room.name, _folder(room) / "admin.conf")


def access(cluster: str) -> tuple[str, ...]:
    """Begins a command that asks the server of a cluster; nothing where none runs."""
    room = of_cluster(cluster)
    config = _folder(room) / "admin.conf"
    return command(config) if room.process is not None and config.exists() else ()


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
        # What asks the server would take minutes to notice that it is there again: it starts anew, too.
        daemons.end(room, [name for name in (*_NAMES, _DNS, *addons.NAMES) if name not in _SERVER])
    daemons.start(room, [each for each in parts if each.name in _SERVER])
    port = daemons.open_door(room, _DOOR, "127.0.0.1", API_PORT)
    _write_config(folder, "admin", f"https://127.0.0.1:{port}")
    asked = Kubectl(room.name, folder / "admin.conf")
    asked.until(room, _SERVER, "its server is not ready", ["get", "--raw", "/readyz"])
    daemons.start(room, parts)  # the others give up where the server is not ready within ten seconds
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
    return _found(folder, ())


def _answer_for_names(room: Room, folder: Path) -> None:
    """Pods find each other by the names of services, as on every cloud."""
    config = folder / "coredns.conf"
    files.write(config, _DNS_CONFIG.format(config=folder / "addons.conf"))
    run([*room.inside, "sh", "-c", _ANYBODY], room.name, "cannot have the room answer for names", timeout=20)
    argv = (program("coredns"), "-conf", str(config))
    daemons.start(room, [Daemon(_DNS, argv, reads=(config, folder / "addons.conf"))])


def _names(addresses: Addresses, asked_for: Sequence[str]) -> tuple[str, ...]:
    """Of the daemons that there are."""
    return (*_NAMES, *([_DNS] if addresses.pods else []), *addons.names(asked_for))


def _see_that_they_run(room: Room, parts: Sequence[str]) -> None:
    """Some are asked nothing before pods need them, and would only be missed by the next look at all."""
    for name in daemons.dead(room, parts):
        raise RoomError(room.name, f"{name} has ended", daemons.last_words(room, name), AGAIN)


def _found(folder: Path, drift: tuple[str, ...]) -> ControlPlaneState:
    bootstrap = folder / "bootstrap.conf"
    said = bootstrap.read_text() if bootstrap.exists() else ""
    # The key that its accounts are vouched for with is made once, and goes with all else that it knows.
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
        """What a controller is told, beside what it is for."""
        return [
            f"--kubeconfig={folder / name}.conf",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'run' / name}",  # else it writes to where the system keeps its own
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
                "--unsafe-no-fsync",  # it outlives its process, which is all that a cluster on one machine can ask for
                "--log-level=warn",
            ),
        ),
        Daemon(
            "kube-apiserver",
            (
                program("kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{_ETCD_PORT}",
                "--bind-address=0.0.0.0",  # of the room's network, which nothing outside reaches
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
                "--enable-admission-plugins=NodeRestriction",  # as clouds have it: a node's rights end at itself
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
    """Who gives nodes the ranges of their pods: nobody where none runs any, for simulated ones need no address. Nobody
    tells them either how long to remember secrets, and writes to all of them whenever there are many more."""
    if not addresses.pods:
        return ["--controllers=*,-nodeipam,-ttl-controller"]
    prefix = 32 - (addresses.pods_of_node - 1).bit_length()
    of_node = f"--node-cidr-mask-size={prefix}"
    return ["--controllers=*", "--allocate-node-cidrs", f"--cluster-cidr={addresses.pods}", of_node]


def _joining() -> Iterator[dict[str, Any]]:
    """Who comes with the certificate for joining gets one of a node's own, and who has that gets it renewed."""
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
    """What a client is told of the server and of itself."""

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
    files.write(folder / f"{name}.conf", json.dumps(config), 0o600)


def _folder(room: Room) -> Path:
    return room.folder / "kubernetes"
