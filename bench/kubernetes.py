"""Measure the creation of nodes and queues of a Kubernetes, its use of the machine, and the rate of gangs, beside plain
Kueue."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from stampworks.schedulers.topology.kubernetes import KUEUE

from bench.ending import room_for_one, run_to_end
from bench.memory import pss_mib
from bench.rows import Row, compared, counted, measured
from tests.cluster.kubernetes import KubernetesStack, gang

TARGETS_S = {64: 15, 512: 30}
RUNS, NODES = 5, 512
GANGS, SIZES, SECONDS = 1000, (1, 2, 4, 8), 2
"""Number of gangs, their sizes in nodes, and the seconds that their pods seem to run."""
AT_ONCE = 100
"""Objects for a kubectl command, which creates them one after the other within its time limit."""
PAIRS = 2
SMALL = {"TARGETS_S": {8: 15}, "RUNS": 1, "NODES": 8, "GANGS": 8, "PAIRS": 1}
LIMIT_S, POLL_S, CLEARED_S = 900, 1.0, 10.0
BARE = "bare"
PLAIN: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BARE}},
    {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": BARE}},
    {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": BARE},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": BARE, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4096"}]}],
                }
            ],
        },
    },
    {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": "main", "namespace": BARE},
        "spec": {"clusterQueue": BARE},
    },
)
"""A queue with all GPUs, without teams, topology or priorities."""


def rows() -> list[Row]:
    found = [row for nodes, target_s in TARGETS_S.items() for row in _started(nodes, target_s)]
    silent: list[int] = []
    with _stack(NODES) as stack:
        stack.up()
        stack.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": PLAIN}))

        def ours() -> float:
            took, left = _through(stack, "research")
            silent.append(len([one for one in left if not _explained(one)]))
            return took

        what = f"{GANGS} gangs through {NODES} nodes: teams and topology, beside one plain queue"
        found.append(compared(what, "s/gang", ours, lambda: _through(stack, BARE)[0], None, PAIRS))
    what = "of these, neither placed nor told why they wait"
    return [*found, counted(what, "gangs", sum(silent), GANGS * PAIRS, 0.0)]


def _started(nodes: int, target_s: float) -> Iterator[Row]:
    took, memory = [], []
    for _ in range(RUNS):
        with _stack(nodes) as stack:
            begun = time.perf_counter()
            stack.up()  # ends when all nodes are ready
            took.append(time.perf_counter() - begun)
            outer = (stack.state / "rooms" / stack.cluster / "process").read_text()
            memory.append(pss_mib(int(outer.split("-")[0])))
    yield measured(f"warm up until {nodes} nodes of a Kubernetes are ready", "s", took, target_s)
    yield measured(f"memory of it, {nodes} nodes", "MiB", memory)


def _through(stack: KubernetesStack, team: str) -> tuple[float, list[dict[str, Any]]]:
    """Return the seconds of each finished gang, and the gangs that missed the limit."""
    begun = time.perf_counter()
    gangs = [_gang(f"g{index}", team, SIZES[index % len(SIZES)]) for index in range(GANGS)]
    for first in range(0, GANGS, AT_ONCE):
        stack.submit(*gangs[first : first + AT_ONCE])
    while _in_queue(stack, team) or (left := _unfinished(stack, team)):
        if time.perf_counter() - begun > LIMIT_S:
            left = _unfinished(stack, team)
            break
        time.sleep(POLL_S)
    took = time.perf_counter() - begun
    stack.kubectl("delete", "jobsets", "--all", f"--namespace={team}", "--wait=false")
    while stack.listed("workloads,pods", f"--namespace={team}"):
        time.sleep(CLEARED_S)
    return took / max(GANGS - len(left), 1), left


def _in_queue(stack: KubernetesStack, team: str) -> int:
    """Waiting or running gangs, as counted by the queue: listing them takes the server seconds."""
    status = json.loads(stack.kubectl("get", "localqueue", "main", f"--namespace={team}", "--output=json"))["status"]
    return int(status.get("pendingWorkloads", 0)) + int(status.get("reservingWorkloads", 0))


def _unfinished(stack: KubernetesStack, team: str) -> list[dict[str, Any]]:
    return [one for one in stack.listed("workloads", f"--namespace={team}") if not _is(one, "Finished")]


def _gang(name: str, team: str, nodes: int) -> dict[str, Any]:
    made = gang(name, team, nodes)
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"]["annotations"]["stampworks/simulated-seconds"] = f"{SECONDS}s"
    if team == BARE:
        template["metadata"]["annotations"].pop("kueue.x-k8s.io/podset-preferred-topology")
        made["metadata"]["labels"].pop("kueue.x-k8s.io/priority-class")
    return made


def _explained(workload: dict[str, Any]) -> bool:
    """Whether it has a place, or Kueue reports why it has none."""
    return _is(workload, "Admitted") or any(each.get("message") for each in _conditions(workload))


def _is(workload: dict[str, Any], what: str) -> bool:
    return any(each["type"] == what and each["status"] == "True" for each in _conditions(workload))


def _conditions(workload: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workload.get("status", {}).get("conditions", [])
    return found


@contextlib.contextmanager
def _stack(nodes: int) -> Iterator[KubernetesStack]:
    with room_for_one() as folder:
        stack = _Stack.of(folder, "bench", nodes, leaf_nodes=8)
        yield stack
        stack.destroy()


class _Stack(KubernetesStack):
    """An interrupted benchmark waits for the engine that it has started."""

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        words = ["pulumi", *argv, "--non-interactive", "--color", "never"]
        return run_to_end(words, self.folder, self.environment(), self.limit_s, stderr=subprocess.STDOUT)
