"""A real kube-apiserver with its etcd on the loopback: it validates objects, and nothing runs."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.project import wait_for

BIN = Path(__file__).resolve().parents[2] / ".venv" / "kubernetes" / "bin"
TOKEN = "of-this-test"
READY_S = 150


@dataclass
class ApiServer:
    kubeconfig: Path

    def run(self, program: str, *words: str, text: str = "") -> str:
        done = self.ended(program, *words, text=text)
        assert done.returncode == 0, f"{program} {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def ended(self, program: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        argv = [str(BIN / program), *words, "--kubeconfig", str(self.kubeconfig)]
        home = self.kubeconfig.parent  # Helm and kubectl write caches below it
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, env=environment)

    def objects(self) -> dict[str, str]:
        """Return all objects except Helm's records of releases, each with its version on the server."""
        kinds = self.run("kubectl", "api-resources", "--verbs=list", "--output=name").split()
        kept = [kind for kind in kinds if not kind.startswith(("componentstatuses", "events", "leases"))]
        listed = json.loads(self.run("kubectl", "get", ",".join(kept), "--all-namespaces", "--output=json"))["items"]
        return {name_of(each): each["metadata"]["resourceVersion"] for each in listed if not is_record(each)}


def name_of(each: dict[str, Any]) -> str:
    return f"{each['kind']} {each['metadata'].get('namespace', '')} {each['metadata']['name']}"


def is_record(each: dict[str, Any]) -> bool:
    return bool(each.get("type") == "helm.sh/release.v1")


@contextlib.contextmanager
def api_server(folder: Path, *flags: str) -> Iterator[ApiServer]:
    etcd, peer, port = (free_port() for _ in range(3))
    key = folder / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    (folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
    clients, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
    store = ["etcd", "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync", "--initial-cluster", f"default={peers}"]
    store += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
    store += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
    server = ["kube-apiserver", f"--etcd-servers={clients}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    server += [f"--cert-dir={folder / 'certificates'}", f"--token-auth-file={folder / 'tokens'}"]
    server += ["--service-account-issuer=https://test", f"--service-account-key-file={key}"]
    server += [
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged",
        *flags,
    ]
    with running(folder, store), running(folder, server):
        yield known(folder, port)


def known(folder: Path, port: int) -> ApiServer:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {"name": "test", "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}}
        ],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    found = ApiServer(folder / "kubeconfig")
    wait_for(lambda: found.ended("kubectl", "get", "--raw", "/readyz").stdout == "ok", READY_S)
    return found


@contextlib.contextmanager
def running(folder: Path, words: list[str]) -> Iterator[None]:
    with (folder / f"{words[0]}.log").open("w") as log:
        process = subprocess.Popen([BIN / words[0], *words[1:]], stdout=log, stderr=log, cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
