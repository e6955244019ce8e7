"""A stand-in for the server of a Kubernetes, as far as operations on nodes ask it; and objects for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stampworks.operations.kubernetes.client import KubernetesApi, RefusedError


def node(name: str = "n1", ready: bool = True, out: bool = False, held: str = "", taints: Sequence[str] = ()) -> Any:
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"stampworks/held": held} if held else {}},
        "spec": {"unschedulable": out, "taints": [taint(each) for each in taints]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def taint(text: str) -> dict[str, str]:
    key, _, value = text.partition("=")
    return {"key": key, "value": value, "effect": "NoSchedule"}


def pod(name: str, where: str, team: str = "research", phase: str = "Running", **metadata: Any) -> Any:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": team, **metadata},
        "spec": {"nodeName": where},
        "status": {"phase": phase},
    }


def gang(name: str, *nodes: str) -> Any:
    """Let start on these nodes."""
    called = {"universal": nodes[0]} if len(nodes) == 1 else {"individual": {"roots": [*nodes]}}
    placed = {"levels": ["kubernetes.io/hostname"], "slices": [{"valuesPerLevel": [called]}]}
    return {
        "kind": "Workload",
        "metadata": {"name": f"jobset-{name}", "namespace": "research", "ownerReferences": [{"name": name}]},
        "status": {
            "conditions": [{"type": "Admitted", "status": "True"}],
            "admission": {"podSetAssignments": [{"topologyAssignment": placed}]},
        },
    }


class StandIn(KubernetesApi):
    """A server with a lease, and the nodes and pods of a test: commands change nodes and are recorded."""

    def __init__(self, *nodes: Any) -> None:
        super().__init__("k", "local", "")
        self.there: list[Any] = list(nodes)
        self.others: list[Any] = []
        self.lease: dict[str, Any] | None = None
        self.told: list[str] = []

    def listed(self, kinds: str, *_: str, limit_s: float = 0) -> list[Any]:  # noqa: ARG002
        asked = kinds.split(",")
        return [*(self.there if "nodes" in asked else []), *(self.others if asked != ["nodes"] else [])]

    def said(self, words: Sequence[str], given: str = "", limit_s: float = 0) -> str:  # noqa: ARG002
        self.told.append(" ".join(words))
        match words:
            case ["get", "lease", *_]:
                return json.dumps(self.lease) if self.lease else ""
            case ["create", *_] if self.lease:
                raise RefusedError('Error from server (AlreadyExists): leases "proof" already exists', "")
            case ["create" | "replace", *_]:
                self.lease = json.loads(given) | {"metadata": {"resourceVersion": "2"}}
            case ["delete", "lease", *_]:
                self.lease = None
            case _:
                self._change(words)
        return ""

    def _of(self, name: str) -> Any:
        return next(each for each in self.others if each["metadata"]["name"] == name)

    def _change(self, words: Sequence[str]) -> None:
        match words:
            case ["patch", "workload", name, *_, patch]:
                active = json.loads(patch.removeprefix("--patch="))["spec"]["active"]
                self._of(name)["status"]["conditions"] = [{"type": "Admitted", "status": "False"}] if not active else []
            case ["cordon" | "uncordon" as verb, *names]:
                for name in names:
                    self.nodes()[name]["spec"]["unschedulable"] = verb == "cordon"
            case ["annotate", "node", *names, said, "--overwrite"]:
                key, _, value = said.partition("=")
                for name in names:
                    self.nodes()[name]["metadata"]["annotations"][key] = value
            case ["annotate", "node", *names, key]:
                for name in names:
                    self.nodes()[name]["metadata"]["annotations"].pop(key.removesuffix("-"))
