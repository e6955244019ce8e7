"""A stack with Kubernetes as its scheduler, the plugin of Pulumi or a stand-in for it, and gangs to submit."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.cluster.stack import ROOT, Stack
from tests.project import wait_for

STAND_IN, OWN = ROOT / "tools" / "kubernetes_plugin", ROOT / ".venv" / "plugin"
"""Folders with the Kubernetes plugin: the stand-in, and Pulumi's own, which `make test-long` builds."""
LEAF, SPINE = "topology.stampworks/leaf", "topology.stampworks/spine"
SEEN_S = 60
DECLARATION = """\
config:
  stampworks:cluster:
    version: 1
    name: {cluster}
    cloud: local
    network: {{cidr: 10.98.0.0/16}}
    pools:
      - {{name: gpu, machine: sim-h100, count: {nodes}, scheduling_only: true}}
    fabric: {{kind: simulated, rail_rate_mbps: 200, leaf_nodes: {leaf_nodes}, spine_leaves: 4, oversubscription: 1}}
    users:
      - {{name: alice, uid: 2001, accounts: [research], groups: [nlp]}}
      - {{name: bob, uid: 2002, accounts: [product]}}
      - {{name: carol, uid: 2003, accounts: [research]}}
    groups: [{{name: nlp, gid: 3001}}]
    scheduler:
      kind: kubernetes
      preemption: requeue
      drain_timeout_minutes: 1
      protect: false
      priorities:
        - {{name: normal, weight: 100}}
        - {{name: high, weight: 200, preempts: [normal]}}
      accounts:
        - {{name: research, share: 3}}
        - {{name: product, share: 1}}
"""


@dataclass
class KubernetesStack(Stack):
    """A Kubernetes stack that is used through the command line."""

    plugin: Path = STAND_IN
    warned: ClassVar[tuple[str, ...]] = (
        "warning: using pulumi-resource-kubernetes from $PATH at",
        "warning: resource plugin kubernetes is expected to have version >=",  # the built-in one belongs to no release
    )

    @classmethod
    def of(cls, folder: Path, cluster: str, nodes: int, leaf_nodes: int, plugin: Path = STAND_IN) -> KubernetesStack:
        """Return a stack with two teams that share simulated nodes three to one."""
        made = cls.make(folder, cluster)
        stack = cls(made.folder, made.cluster, plugin)
        stack.declare(DECLARATION.format(cluster=cluster, nodes=nodes, leaf_nodes=leaf_nodes))
        return stack

    def environment(self) -> dict[str, str]:
        found = super().environment()
        return {**found, "PATH": f"{self.plugin}{os.pathsep}{found['PATH']}", "STAMPWORKS_STACK": "test"}

    def kubectl(self, *words: str, text: str = "") -> str:
        done = self.stampworks("kubectl", "--", *words, text=text)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def listed(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", *words, "--output=json"))["items"]
        return found

    def gangs(self) -> dict[str, dict[str, Any]]:
        """Return the gangs of `status` by name; none while the server is silent, for example after etcd was killed."""
        done = self.stampworks("status", "--json")
        found: dict[str, Any] = json.loads(done.stdout)
        return {gang["name"]: gang for gang in found.get("gangs", ())}

    def submit(self, *gangs: dict[str, Any]) -> None:
        self.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(gangs)}))

    def seen(self, name: str, state: str) -> dict[str, Any]:
        """Wait until the gang is in this state; a waiting gang must have been considered once."""

        found: dict[str, Any] = {}

        def there() -> bool:
            nonlocal found
            found = self.gangs().get(name, {})
            return found.get("state") == state and found["why"] != "not judged yet"

        wait_for(there, SEEN_S)
        return found

    def clear(self) -> None:
        """Ends all gangs, and returns when nothing of them is left."""
        # delete every object: the garbage collector needs a minute after the server was killed to remove orphans
        kinds = "jobsets,jobs,pods,workloads"
        self.kubectl("delete", kinds, "--all", "--all-namespaces", "--cascade=background", "--wait=false")
        wait_for(lambda: not self.gangs() and not self.listed("pods", "-A"), SEEN_S)


def gang(
    name: str,
    team: str,
    nodes: int,
    *,
    queue: str = "main",
    priority: str = "normal",
    required: bool = False,
    level: str = LEAF,
) -> dict[str, Any]:
    """Return pods that start together: one on each node with all its accelerators, in the same domain or close."""
    wish = "required" if required else "preferred"
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
    }
    template = {"metadata": {"annotations": {f"kueue.x-k8s.io/podset-{wish}-topology": level}}, "spec": pod}
    job = {"parallelism": nodes, "completions": nodes, "backoffLimit": 0, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": team,
            "labels": {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": priority},
        },
        "spec": {
            "failurePolicy": {"maxRestarts": 9},
            "replicatedJobs": [{"name": "node", "template": {"spec": job}}],
        },
    }
