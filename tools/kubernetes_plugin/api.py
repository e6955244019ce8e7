"""The server of a Kubernetes, called for one object at a time."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

Manifest = dict[str, Any]
_TIMEOUT_S, _WAIT_S, _POLL_S = 30, 120, 0.1
_BAD, _NOT_FOUND = 400, 404
_MANAGER = "pulumi-kubernetes-stand-in"


class ApiError(Exception):
    """The server's error message and status."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class Api:
    """An API server, as one of its users sees it."""

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(kubeconfig)
        current = next(each for each in config["contexts"] if each["name"] == config["current-context"])["context"]
        cluster = next(each for each in config["clusters"] if each["name"] == current["cluster"])["cluster"]
        user = next(each for each in config["users"] if each["name"] == current["user"])["user"]
        self._server = cluster["server"]
        self._pool = urllib3.PoolManager(ssl_context=_context(cluster, user), maxsize=16, retries=False)
        self._known = cache(self._kinds)

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Apply a manifest: set its fields, and remove those of an earlier manifest."""
        query = {"fieldManager": _MANAGER, "force": "true", "fieldValidation": "Strict"}
        query |= {"dryRun": "All"} if dry_run else {}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return self._ask("PATCH", self._path(manifest), params=query, headers=headers, json=manifest)

    def get(self, manifest: Mapping[str, Any]) -> Manifest | None:
        """Return the object with a manifest's kind and name, or None if there is none."""
        try:
            return self._ask("GET", self._path(manifest))
        except ApiError as error:
            if error.code == _NOT_FOUND:
                return None
            raise

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete the object and wait until it is gone, or replaced."""
        found = self.get(manifest)
        if found is None:
            return
        try:
            self._ask("DELETE", self._path(manifest), json={"propagationPolicy": "Foreground"})
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise
        uid, deadline = found["metadata"]["uid"], time.monotonic() + _WAIT_S
        while (found := self.get(manifest)) and found["metadata"]["uid"] == uid:
            if time.monotonic() > deadline:
                held = ", ".join(found["metadata"].get("finalizers", ())) or "nothing that it says"
                raise ApiError(0, f"it is not gone after {_WAIT_S} s; it waits for {held}")
            time.sleep(_POLL_S)

    def _path(self, manifest: Mapping[str, Any]) -> str:
        kind, metadata = self._kind(manifest), manifest["metadata"]
        within = f"/namespaces/{metadata.get('namespace', 'default')}" if kind["namespaced"] else ""
        return f"{_base(manifest['apiVersion'])}{within}/{kind['name']}/{metadata['name']}"

    def _kind(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the server's entry of a kind, even if it was just installed."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        if kind not in self._known(version):
            self._known.cache_clear()
        if kind not in self._known(version):
            raise ApiError(_NOT_FOUND, f"this Kubernetes has no kind {kind} in {version}")
        return self._known(version)[kind]

    def _kinds(self, version: str) -> dict[str, Mapping[str, Any]]:
        try:
            found = self._ask("GET", _base(version))["resources"]
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise
            return {}
        return {each["kind"]: each for each in found if "/" not in each["name"]}

    def _ask(self, verb: str, path: str, **more: Any) -> Manifest:
        headers = {"Content-Type": "application/json", **more.pop("headers", {})}
        body = json.dumps(more["json"]) if "json" in more else None
        url = f"{self._server}{path}?{urlencode(more.get('params', {}))}"
        try:
            answer = self._pool.request(verb, url, body=body, headers=headers, timeout=_TIMEOUT_S)
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, f"{self._server} does not answer: {error}") from None
        said: Manifest = answer.json() if "json" in answer.headers.get("Content-Type", "") else {}
        if answer.status >= _BAD:
            raise ApiError(answer.status, said.get("message") or answer.data.decode(errors="replace"))
        return said


def _context(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    """Return a TLS context with the server's and the user's certificates. Python reads them only from files, which are
    removed at once."""
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as file:
        for name in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[name]) + b"\n")
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _base(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
