"""Send requests to the server of a Kubernetes through kubectl, and read its objects."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from stampworks.clouds.contract import Access
from stampworks.clouds.registry import CLOUDS
from stampworks.operations.errors import InputError, OperationError, UnknownError, start
from stampworks.plan import Plan, Roster
from stampworks.schedulers.identity import FILES
from stampworks.schedulers.kubernetes import OURS
from stampworks.schedulers.objects import maps_at, text_at, texts_at
from stampworks.schedulers.topology.kubernetes import HOSTNAME

_TIMEOUT_S = 120
_SOON_S, _AT_MOST_S = 5, 20
"""Limit for a request, and for the several requests of a kubectl command."""
_NEW_S, _AGAIN_S = 300.0, 5.0
"""Seconds that a new server may be silent, and seconds between tries."""
_FAILED_THERE = "command terminated with exit code"
_UNHEARD = {
    "The connection to the server": "does not answer",
    "Unable to connect to the server": "does not answer",
    "error: You must be logged in to the server": "does not accept the credentials",
}
"""Beginnings of kubectl's messages about a silent server, and their meaning."""
Manifest = Mapping[str, Any]
OURS_ONLY = "--selector=" + ",".join(f"{key}={value}" for key, value in OURS.items())
"""Selector of the toolkit's own objects."""


class NotRunningError(OperationError):
    """The cluster has no server to ask."""


class RefusedError(OperationError):
    """The server refused a request."""


def kubectl(plan: Plan) -> tuple[str, ...]:
    """Begins a command that asks the server of the plan's cluster."""
    if not plan.scheduler.traits.runs_pods:
        raise InputError(
            f"the scheduler of cluster {plan.name} is {plan.scheduler.traits.title}",
            "use stampworks run -- sinfo",
        )
    return reach(plan.name, plan.cloud, plan.region)


def reach(cluster: str, cloud: str, region: str) -> tuple[str, ...]:
    """Return the prefix of a kubectl command for a cluster whose scheduler is Kubernetes."""
    access = _access(cloud)
    command = access.kubectl(cluster, region) if access else ()
    if not command:
        raise NotRunningError(f"no Kubernetes of cluster {cluster} is running", start())
    return command


def user_config(plan: Plan, user: str) -> str:
    """The configuration with which a user asks the server of the plan's cluster, with the rights of her teams."""
    access = _access(plan.cloud)
    config = access.user_config(plan.name, plan.region, user) if access else ""
    if not config:
        raise NotRunningError(f"no Kubernetes of cluster {plan.name} is running", start())
    return config


def kubectl_with(config: Path) -> tuple[str, ...]:
    """Begins a command that asks the server that a file names."""
    if program := shutil.which("kubectl"):
        # kubectl's cached answers of another server at the same address are wrong for this one
        return (program, f"--kubeconfig={config}", f"--cache-dir={config.with_suffix('.cache')}")
    raise UnknownError("there is no kubectl on this machine", "install it")


def _access(cloud: str) -> Access | None:
    """Return the route to a Kubernetes of a cloud; None if no component makes one."""
    own = CLOUDS[cloud].kubernetes if cloud in CLOUDS else None
    return own.access() if own else None


def config_of(roster: Roster | None) -> Path | None:
    """Return the kubeconfig of a user with a connection; None for an administrator."""
    if roster is None or roster.user in ("", "root"):
        return None
    return Path(roster.identity_file)


class KubernetesApi:
    """API of a cluster's Kubernetes, as its administrator or, with a kubeconfig, as a user."""

    def __init__(self, cluster: str, cloud: str, region: str, config: Path | None = None) -> None:
        self.cluster, self._place, self._config = cluster, (cloud, region), config

    @cached_property
    def _kubectl(self) -> tuple[str, ...]:
        return kubectl_with(self._config) if self._config else reach(self.cluster, *self._place)

    @classmethod
    def of(cls, plan: Plan, roster: Roster | None = None) -> KubernetesApi:
        """Ask as the user of the roster."""
        return cls(plan.name, plan.cloud, plan.region, config_of(roster))

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return the nodes by name."""
        return {name_of(node): node for node in self.listed("nodes")}

    def listed(self, kinds: str, *more: str, limit_s: float = _TIMEOUT_S) -> list[dict[str, Any]]:
        """Return objects of these kinds; objects without a kind or name are left out."""
        text = self.said(["get", kinds, *more, "--output=json"], limit_s=limit_s)
        try:
            items = json.loads(text)["items"]
        except (ValueError, KeyError, TypeError, RecursionError):
            items = None
        if not isinstance(items, list):
            what = f"the answer of the Kubernetes of cluster {self.cluster} is not a list of {kinds}"
            raise UnknownError(what, f"see its answer: stampworks kubectl -- get {kinds} --output=json")
        return [each for each in items if text_at(each, "kind") and text_at(each, "metadata", "name")]

    def awaited(self, progress: Callable[[str], None]) -> None:
        """Wait until the server answers. A cloud reports a new one before its name resolves, or before it listens."""
        _ = self._kubectl  # waiting does not help if it is missing
        until = time.monotonic() + _NEW_S
        while True:
            try:
                self.said(["get", "--raw=/readyz", f"--request-timeout={_SOON_S}s"], limit_s=_AT_MOST_S)
            except OperationError as error:
                if time.monotonic() > until:
                    raise
                progress(f"waiting: {str(error).splitlines()[0]}")
                time.sleep(_AGAIN_S)
            else:
                return

    def listed_soon(self, kinds: str, *more: str) -> list[dict[str, Any]]:
        """Return objects within a short time limit, for commands that only read."""
        return self.listed(kinds, *more, f"--request-timeout={_SOON_S}s", limit_s=_AT_MOST_S)

    def create(self, manifest: Manifest) -> None:
        """Create an object, unless another command was quicker."""
        try:
            self.said(["create", "--filename=-"], json.dumps(manifest))
        except RefusedError as error:
            if "(AlreadyExists)" not in str(error):
                raise

    def last_event(self, name: str, where: str) -> str:
        """Return the message of the last event about a pod; empty without one."""
        words = ["get", "events", where, f"--field-selector=involvedObject.name={name}", "--output=json"]
        items = json.loads(self.said(words))["items"]
        return str(items[-1].get("message", "")) if items else ""

    def said(self, words: Sequence[str], given: str = "", limit_s: float = _TIMEOUT_S) -> str:
        """Run kubectl and return its output. Raise an error that names the cluster."""
        command = [*self._kubectl, *words]
        whole = f"the Kubernetes of cluster {self.cluster}"
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                encoding="utf-8",
                errors="replace",  # output of a program in a pod may not be text
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            why = f"does not answer within {limit_s:g} s"
            raise UnknownError(f"{whole} {why}", self.remedy(why)) from None
        if done.returncode == 0:
            return done.stdout
        # kubectl's last line only says that the program in the pod failed; the program's own lines say why
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith(_FAILED_THERE)]
        for line in lines:  # the message may be followed by advice
            for begins, means in _UNHEARD.items():
                if line.startswith(begins):
                    raise UnknownError(f"{whole} {means}: {line}", self.remedy(line))
        why = (lines or [f"kubectl ended with {done.returncode}"])[-1]
        raise RefusedError(f"{whole} refused: {why}", "stampworks status")

    def remedy(self, why: str) -> str:
        """Return the cloud's remedy for a missing answer with this reason."""
        access = _access(self._place[0])
        return access.remedy(why) if access else start()


def name_of(each: Manifest) -> str:
    """Return the name of an object."""
    return str(each["metadata"]["name"])


def conditions(each: Manifest) -> dict[str, Manifest]:
    """Return the conditions of an object, by kind."""
    return {text_at(one, "type"): one for one in maps_at(each, "status", "conditions")}


def is_true(each: Manifest, kind: str) -> bool:
    """Whether the condition of this type is true; a missing condition is not."""
    return conditions(each).get(kind, {}).get("status") == "True"


def ready(node: Manifest) -> bool:
    """Whether the node's kubelet reports it as ready."""
    return is_true(node, "Ready")


def owner(metadata: Manifest) -> str:
    """Return the object behind a workload, whose name a user has chosen."""
    owners = maps_at(metadata, "ownerReferences")
    return text_at(owners[0] if owners else metadata, "name")


def looks_at_files(each: Manifest) -> bool:
    """Return whether a workload or pod only reads files: it is no job, and ends by itself."""
    return owner(each["metadata"]).startswith(FILES)


def has_started(workload: Manifest) -> bool:
    """Whether a gang was let start and has not ended."""
    return is_true(workload, "Admitted") and not is_true(workload, "Finished")


def holds(workload: Manifest) -> tuple[str, ...]:
    """The nodes that a gang has which was let start and has not ended."""
    return placed(workload) if has_started(workload) else ()


def placed(workload: Manifest) -> tuple[str, ...]:
    """Return the nodes of its pods, in the order of ranks."""
    found: list[str] = []
    for pods in maps_at(workload, "status", "admission", "podSetAssignments"):
        levels = texts_at(pods, "topologyAssignment", "levels")
        if HOSTNAME in levels:
            for slice_ in maps_at(pods, "topologyAssignment", "slices"):
                found += _named(slice_, levels.index(HOSTNAME))
    return tuple(found)


def _named(slice_: Manifest, level: int) -> Iterator[str]:
    """Yield the names of places at a level: Kueue writes their common part once."""
    for values in maps_at(slice_, "valuesPerLevel")[level : level + 1]:
        if one := text_at(values, "universal"):
            yield one
        begin, end = (text_at(values, "individual", part) for part in ("prefix", "suffix"))
        yield from (f"{begin}{root}{end}" for root in texts_at(values, "individual", "roots"))
