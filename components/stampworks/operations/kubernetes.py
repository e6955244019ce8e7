"""The server of a Kubernetes, asked through kubectl, and what its objects say."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.plan import Plan
from stampworks.schedulers.kubernetes import OURS
from stampworks.schedulers.topology.kubernetes import HOSTNAME

_TIMEOUT_S = 120
_SOON_S, _AT_MOST_S = 5, 20
"""Of one request, and of the several that kubectl makes of what it is asked."""
_FAILED_THERE = "command terminated with exit code"
_UNREACHED = re.compile("(The connection|Unable to connect) to the server")
Manifest = Mapping[str, Any]
OURS_ONLY = "--selector=" + ",".join(f"{key}={value}" for key, value in OURS.items())
"""Chooses what the toolkit has made among what there is."""


class NotRunningError(OperationError):
    """There is none to ask."""


class RefusedError(OperationError):
    """The server answered, and did not do what it was asked to."""


def kubectl(plan: Plan) -> tuple[str, ...]:
    """Begins a command that asks the server of the plan's cluster."""
    if plan.scheduler.kind != "kubernetes":
        raise InputError(f"the scheduler of cluster {plan.name} is Slurm", "stampworks run -- sinfo asks that")
    return reach(plan.name, plan.cloud, plan.region)


def reach(cluster: str, cloud: str, region: str) -> tuple[str, ...]:
    """The same, of a cluster whose scheduler is Kubernetes."""
    module = f"stampworks.clouds.{cloud}.access"
    command: tuple[str, ...] = importlib.import_module(module).kubectl(cluster, region) if find_spec(module) else ()
    if not command:
        raise NotRunningError(f"no Kubernetes of cluster {cluster} is running", "start it: pulumi up")
    return command


class Server:
    """That of a cluster, as its administrator."""

    def __init__(self, cluster: str, cloud: str, region: str) -> None:
        self.cluster, self._place = cluster, (cloud, region)

    @cached_property
    def _kubectl(self) -> tuple[str, ...]:
        return reach(self.cluster, *self._place)

    @classmethod
    def of(cls, plan: Plan) -> Server:
        return cls(plan.name, plan.cloud, plan.region)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """By their names."""
        return {name_of(node): node for node in self.listed("nodes")}

    def listed(self, kinds: str, *more: str, limit_s: float = _TIMEOUT_S) -> list[dict[str, Any]]:
        text = self.said(["get", kinds, *more, "--output=json"], limit_s=limit_s)
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def listed_soon(self, kinds: str, *more: str) -> list[dict[str, Any]]:
        """For who only looks: a server that cannot be reached from here is no reason to wait."""
        return self.listed(kinds, *more, f"--request-timeout={_SOON_S}s", limit_s=_AT_MOST_S)

    def said(self, words: Sequence[str], given: str = "", limit_s: float = _TIMEOUT_S) -> str:
        command = [*self._kubectl, *words]
        whole = f"the Kubernetes of cluster {self.cluster}"
        try:
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            raise UnknownError(f"{whole} does not answer within {limit_s:g} s", "pulumi up repairs it") from None
        # of a program in a pod kubectl says last only that it has failed, and the program what
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith(_FAILED_THERE)]
        why = (lines or [f"kubectl ended with {done.returncode}"])[-1]
        if done.returncode and _UNREACHED.match(why):
            raise UnknownError(f"{whole} does not answer: {why}", "pulumi up repairs it")
        if done.returncode:
            raise RefusedError(f"{whole} refused: {why}", "stampworks status")
        return done.stdout


def name_of(each: Manifest) -> str:
    return str(each["metadata"]["name"])


def conditions(each: Manifest) -> dict[str, Manifest]:
    """What is said of an object, by kind."""
    return {one["type"]: one for one in each.get("status", {}).get("conditions", ())}


def is_true(each: Manifest, kind: str) -> bool:
    return conditions(each).get(kind, {}).get("status") == "True"


def ready(node: Manifest) -> bool:
    return is_true(node, "Ready")


def owner(metadata: Manifest) -> str:
    """What it stands for: a workload has a name that nobody has chosen."""
    owners = metadata.get("ownerReferences", ())
    return str(owners[0]["name"] if owners else metadata["name"])


def has_started(workload: Manifest) -> bool:
    """Whether a gang was let start and has not ended."""
    return is_true(workload, "Admitted") and not is_true(workload, "Finished")


def holds(workload: Manifest) -> tuple[str, ...]:
    """The nodes that a gang has which was let start and has not ended."""
    return placed(workload) if has_started(workload) else ()


def placed(workload: Manifest) -> tuple[str, ...]:
    """Where its pods are to be, in the order of their ranks."""
    found: list[str] = []
    for pods in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ()):
        place = pods.get("topologyAssignment", {})
        if HOSTNAME in place.get("levels", ()):
            index = place["levels"].index(HOSTNAME)
            found += (domain["values"][index] for domain in place["domains"])
    return tuple(found)
