"""Check whether a Kubernetes workload fits the cluster of a plan: its requests, and missing settings.

A manifest is untrusted data: parts of another shape are ignored, because the server refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from stampworks.plan import ACCELERATOR, Group, Plan
from stampworks.schedulers import addons, jobset, kubernetes
from stampworks.schedulers.kubernetes import DEFAULT_QUEUE, PRIORITY_LABEL, QUEUE_LABEL
from stampworks.schedulers.objects import at
from stampworks.schedulers.topology.kubernetes import HOSTNAME, POOL
from stampworks.text.amounts import quantity

Path = tuple[str | int, ...]
EFA, HUGE_PAGES = "vpc.amazonaws.com/efa", "hugepages-2Mi"
USE_HUGE_PAGES = "FI_EFA_USE_HUGE_PAGE"
"""Variable that tells libfabric whether to use huge pages."""
NET, PROVIDER = "NCCL_NET", "FI_PROVIDER"
"""Say which network NCCL has to use, and which provider libfabric."""
RDMA = ("rdma/", "nvidia.com/")
"""Prefixes of the device names of InfiniBand and RoCE plugins; each cluster chooses the remainder."""
TOPOLOGY = {
    "kueue.x-k8s.io/podset-required-topology": "required",
    "kueue.x-k8s.io/podset-preferred-topology": "preferred",
}
OVER_TCP: Mapping[str, Mapping[str, str]] = {
    "efa": {"NCCL_NET": "socket", "NCCL_NET_PLUGIN": "none"},
    "infiniband": {"NCCL_NET": "socket", "NCCL_IB_DISABLE": "1"},
    "roce": {"NCCL_NET": "socket", "NCCL_IB_DISABLE": "1"},
}
"""Settings of NCCL by kind of fabric, and the values with which it bypasses the fabric. EFA uses a plugin, InfiniBand
and RoCE are built in."""
SHM = "/dev/shm"  # noqa: S108  (nothing of ours is written there)
TRAINJOB, RUNTIMES = "TrainJob", ("TrainingRuntime", "ClusterTrainingRuntime")
"""Kinds of Kubeflow's Trainer: a job has its pods from a runtime, which runs nothing until a job names it."""
_QUEUED: Mapping[str, str] = {
    **dict.fromkeys(("Job", "JobSet", "RayCluster", "RayJob"), ""),
    **dict.fromkeys((TRAINJOB, *RUNTIMES), "trainer"),
    "MPIJob": "mpi-operator",
}
"""Kinds whose pods Kueue manages, with the add-on of each; no add-on installs KubeRay."""
_SEVERAL = 2
"""Number of pods assumed for a runtime, whose users set it."""
_CAPABILITIES = frozenset(
    [
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    ]
)
"""Capabilities that the Pod Security level baseline allows (kubernetes.io, Pod Security Standards, read 2026-11-24)."""
_SIZED = {ACCELERATOR: (1, ""), "cpu": (1, ""), "memory": (1024**3, "Gi")}
"""Resources that queues count, and the unit of each in messages."""
_MEMLOCK = "the limit of locked memory comes from the node, and a proof measures it where pods start from an image"
_SHARED = ("hostNetwork", "hostPID", "hostIPC")


@dataclass(frozen=True)
class Remark:
    """Problem of a manifest, and its place."""

    id: str
    severity: Literal["error", "warning"]
    path: Path
    text: str
    hint: str


@dataclass(frozen=True)
class _Pods:
    """Pods of one template."""

    path: Path
    """Place of their spec."""
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    count: int
    """Number of pods, including other templates of the same training."""

    @property
    def accelerators(self) -> float:
        """Return the accelerators of a pod."""
        return sum(quantity(_asked(each).get(ACCELERATOR)) or 0 for _, each in self.containers)

    @property
    def containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        return self._listed("containers")

    @property
    def beforehand(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Return the containers that end before the others begin."""
        return self._listed("initContainers")

    def _listed(self, field: str) -> list[tuple[Path, Mapping[str, Any]]]:
        found = _list(self.spec.get(field))
        return [((*self.path, field, index), each) for index, each in enumerate(found) if _is_map(each)]


def lint(plan: Plan, manifest: Any) -> list[Remark]:
    """Return remarks. Errors are requests that cannot run, or that would bypass the fabric. A manifest without pods has
    none."""
    if not _is_map(manifest):
        return []
    kind = str(manifest.get("kind"))
    if kind == TRAINJOB:
        pods = list(_patches(manifest))
    else:
        pods = _together(list(_templates(manifest, (), _SEVERAL if kind in RUNTIMES else 1)))
    found = [*_kind(plan, kind)] if pods or kind == TRAINJOB else []
    found += _queue(plan, manifest) if (pods and kind not in RUNTIMES) or kind == TRAINJOB else []
    if kind == TRAINJOB:
        found += _trainer(plan, manifest, pods)
    for each in pods:
        found += [*_resources(plan, each), *_admitted(each), *_access(each)]
        if each.count > 1:
            found += [*_topology(plan, each), *_fabric(plan, each)]
    if any(each.count > 1 for each in pods) and kind == "JobSet":
        found += _restarts(manifest)
    return found


def _templates(value: Any, path: Path, count: int) -> Iterator[_Pods]:
    """Yield the pods of any kind of object: a spec with containers is a pod, and the surrounding fields give their
    number."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _templates(item, (*path, index), count)
    elif _is_map(value):
        for name in ("parallelism", "replicas", "numNodes"):
            number = value.get(name)
            count *= number if type(number) is int and number > 0 else 1
        spec = value.get("spec")
        if _is_map(spec) and isinstance(spec.get("containers"), list):
            yield _Pods((*path, "spec"), _map(value.get("metadata")), spec, count)
            return
        for name, item in value.items():
            yield from _templates(item, (*path, str(name)), count)


def _patches(manifest: Mapping[str, Any]) -> Iterator[_Pods]:
    """Yield the changes that a TrainJob makes to its runtime's pods: never their number or resources."""
    for number, patch in enumerate(_list(at(manifest, "spec", "runtimePatches"))):
        jobs = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for index, job in enumerate(_list(at(patch, *jobs))):
            pod = ("template", "spec", "template")
            path, made = ("spec", "runtimePatches", number, *jobs, index, *pod, "spec"), _map(at(job, *pod))
            yield _Pods(path, _map(made.get("metadata")), _map(made.get("spec")), 1)


def _together(pods: Sequence[_Pods]) -> list[_Pods]:
    """Return the pods that train together: those with the most accelerators. A leader may have its own template. Pods
    with fewer, such as evaluators and MPI launchers, need no fabric."""
    most = max((each.accelerators for each in pods), default=0)
    count = sum(each.count for each in pods if each.accelerators == most)
    return [replace(each, count=count) if most and each.accelerators == most else each for each in pods]


def _kind(plan: Plan, kind: str) -> Iterator[Remark]:
    if (addon := _QUEUED.get(kind)) is None:
        text = f"a {kind} has no queue, so that teams must not make one"
        yield _error("kind", ("kind",), text, "make it a JobSet, or a Job")
    elif addon and addon not in [each.name for each in plan.scheduler.addons]:
        switch = f"{addon.replace('-', '_')}: true"
        yield _error(
            "kind", ("kind",), f"{kind} needs {addon}, which the cluster does not have", f"write addons: {{{switch}}}"
        )


def _queue(plan: Plan, manifest: Mapping[str, Any]) -> Iterator[Remark]:
    metadata = _map(manifest.get("metadata"))
    labels, team = _map(metadata.get("labels")), metadata.get("namespace", "default")
    teams, queues = [each.name for each in kubernetes.teams(plan)], [each.name for each in plan.scheduler.queues]
    default = next(each.name for each in plan.scheduler.queues if each.default)
    if team not in teams:
        yield _error("namespace", ("metadata", "namespace"), f"no team is called {team!r}", _choose(teams))
    queue = labels.get(QUEUE_LABEL)
    if queue is None:
        text = f"it names no queue, and waits in the default one, {default}"
        yield _warning("queue", ("metadata", "labels"), text, f"write the label {QUEUE_LABEL}: {default}")
    elif queue not in (*queues, DEFAULT_QUEUE):
        yield _error("queue", ("metadata", "labels", QUEUE_LABEL), f"no queue is called {queue!r}", _choose(queues))
    priority, known = labels.get(PRIORITY_LABEL), [each.name for each in plan.scheduler.priorities]
    if priority is not None and priority not in known:
        text = f"no priority is called {priority!r}"
        yield _error("priority", ("metadata", "labels", PRIORITY_LABEL), text, _choose(known))
    waits = default if queue in (None, DEFAULT_QUEUE) else queue
    usual = next((each.priority for each in plan.scheduler.queues if each.name == waits), "")
    if priority is None and usual:
        text = f"it names no priority, and queue {waits} gives {usual} to what `stampworks submit` makes alone"
        yield _warning("priority", ("metadata", "labels"), text, f"write the label {PRIORITY_LABEL}: {usual}")


def _resources(plan: Plan, pods: _Pods) -> Iterator[Remark]:
    """Compare resources with the largest node that the pods may be on."""
    among = _among(plan, pods)
    for path, container in pods.containers:
        asked = _asked(container)
        yield from _amounts(plan, among, asked, (*path, "resources"))
        mounted = {
            str(each.get("mountPath")): each.get("name") for each in map(_map, _list(container.get("volumeMounts")))
        }
        if SHM in mounted:
            yield from _shm(pods, mounted[SHM])
        elif (quantity(asked.get(ACCELERATOR)) or 0) > 1:
            text = f"several accelerators, and the {SHM} of a container is 64 MiB: NCCL and data loaders run out of it"
            yield _warning("shm", path, text, f"mount an emptyDir with medium: Memory at {SHM}")


def _amounts(plan: Plan, among: Sequence[Group], asked: Mapping[str, Any], path: Path) -> Iterator[Remark]:
    """Yield requests that no node can satisfy, no server accepts or no queue counts."""
    sized = {**_SIZED, **({EFA: (1, "")} if plan.fabric.kind == "efa" else {})}
    for name, (unit, called) in sized.items():
        number, most = quantity(asked.get(name)), _rails(plan, among) if name == EFA else _most(among, name)
        if number is not None and most and number > most:
            wants, there = (f"{each / unit:g}{called}" for each in (number, most))
            text = f"{wants} of {name}, and no node that it may be on has more than {there}"
            yield _error("size", path, text, f"ask for {there} at most, and for more pods")
    if any(name.startswith("hugepages-") for name in asked):
        if not {"cpu", "memory"} & asked.keys():
            text = "it asks for huge pages without cores or memory: the server refuses such a pod"
            yield _error("huge-pages", path, text, "write memory in its limits, too")
        text = "it asks for huge pages, which only some images of nodes reserve: on others it waits for ever"
        told = jobset.of_fabric(plan.fabric.kind).get(USE_HUGE_PAGES)
        hint = "take them out" + (f', and write {USE_HUGE_PAGES}: "{told}" in its env' if told else "")
        yield _warning("huge-pages", path, text, hint)
    for name in sorted(asked):
        if name not in _SIZED and not name.startswith(kubernetes.UNCOUNTED):
            text = f"no queue has {name}: it would wait for ever"
            hint = (
                f"take it out: there are {', '.join(_SIZED)}, and names with these beginnings, which are not counted: "
            )
            yield _error("quota", path, text, hint + ", ".join(kubernetes.UNCOUNTED))


def _shm(pods: _Pods, name: Any) -> Iterator[Remark]:
    """Yield remarks on shared memory. A volume with a path of the node is refused."""
    for index, each in enumerate(map(_map, _list(pods.spec.get("volumes")))):
        memory = _map(each.get("emptyDir")).get("medium") == "Memory"
        if each.get("name") == name and not memory and "hostPath" not in each:
            text = f"the volume at {SHM} is not in memory: NCCL and data loaders would share memory through a disk"
            hint = f"mount an emptyDir with medium: Memory there, and the present volume elsewhere than at {SHM}"
            yield _warning("shm", (*pods.path, "volumes", index), text, hint)


def _trainer(plan: Plan, manifest: Mapping[str, Any], patches: Sequence[_Pods]) -> Iterator[Remark]:
    """Check the settings of a TrainJob for its pods: resources that replace its runtime's, and additional settings. The
    rest belongs to the runtime."""
    trainer, path = _map(at(manifest, "spec", "trainer")), ("spec", "trainer")
    chosen = [each for each in patches if POOL in _map(each.spec.get("nodeSelector"))]
    asked = _amounts_asked(_map(trainer.get("resourcesPerNode")))
    among = _among(plan, chosen[-1]) if chosen else kubernetes.pools(plan)
    yield from _amounts(plan, among, asked, (*path, "resourcesPerNode"))
    rails = _rails(plan, among)
    if trainer.get("numNodes") == 1 or not rails:
        return
    if quantity(asked.get(ACCELERATOR)):
        yield from _devices(plan, rails, asked, (*path, "resourcesPerNode"))
    yield from _settings(plan, rails, dict(_environment(trainer)), (*path, "env"))
    for where, container in (found for each in patches for found in each.containers):
        yield from _settings(plan, rails, dict(_environment(container)), (*where, "env"))


def _topology(plan: Plan, pods: _Pods) -> Iterator[Remark]:
    placed = any(pool.rails for pool in _among(plan, pods))
    levels = [*(kubernetes.level_labels(plan) if placed else ()), HOSTNAME]
    annotations = _map(pods.metadata.get("annotations"))
    path = (*pods.path[:-1], "metadata", "annotations")
    wished = {name: annotations[name] for name in TOPOLOGY if name in annotations}
    for name, level in wished.items():
        if level not in levels:
            yield _error("topology", (*path, name), f"the topology has no level {level!r}", _choose(levels))
    if not wished and levels[1:]:
        name = next(name for name, way in TOPOLOGY.items() if way == "preferred")
        text = f"{pods.count} pods without a required place in the fabric"
        yield _warning("topology", path, text, f"write the annotation {name}: {levels[-2]}")


def _fabric(plan: Plan, pods: _Pods) -> Iterator[Remark]:
    """Pods that talk to each other, and would do it over TCP without saying so."""
    rails, told = _rails(plan, _among(plan, pods)), jobset.of_fabric(plan.fabric.kind)
    if not rails:
        return
    for path, container in pods.containers:
        asked, env, place = _asked(container), dict(_environment(container)), (*path, "env")
        if not quantity(asked.get(ACCELERATOR)):
            continue
        yield from _devices(plan, rails, asked, (*path, "resources"))
        yield from _settings(plan, rails, env, place)
        if USE_HUGE_PAGES in told and HUGE_PAGES not in asked and env.get(USE_HUGE_PAGES) != told[USE_HUGE_PAGES]:
            text = "it asks for no huge pages, which EFA's provider uses for each device"
            hint = f'write {USE_HUGE_PAGES}: "{told[USE_HUGE_PAGES]}" in its env'
            yield _warning("huge-pages", (*path, "resources"), text, hint)
        if PROVIDER in told and not env.get(PROVIDER):
            text = "libfabric is not told to use EFA: where EFA fails, it would silently use TCP"
            yield _error("environment", place, text, f"write {PROVIDER}: {told[PROVIDER]}")
        if NET not in env:
            text = "NCCL is not told which network to use: where the fabric's fails to load, it would silently use TCP"
            yield _error("environment", place, text, f"write {NET}: {told[NET]}, and NCCL fails instead")


def _rails(plan: Plan, among: Sequence[Group]) -> int:
    """Return the rails of a node, if they are devices that a pod has to request; else 0."""
    return max((pool.rails or 0 for pool in among), default=0) if plan.fabric.kind in OVER_TCP else 0


def _devices(plan: Plan, rails: int, asked: Mapping[str, Any], path: Path) -> Iterator[Remark]:
    if plan.fabric.kind != "efa":
        if not any(name.startswith(RDMA) and name != ACCELERATOR for name in asked):
            text = f"it asks for no RDMA device, so that none of {rails} rails is in the container"
            name = addons.shared_nics(plan)
            hint = "ask for a resource of the cluster's RDMA device plug-in, as rdma/NAME: 1"
            yield _error("device", path, text, f"write {name}: 1 in its limits" if name else hint)
        return
    number = quantity(asked.get(EFA)) or 0
    if number < rails:
        text = f"it asks for {number:g} of {rails} EFA devices, so that the others stay unused"
        yield (_warning if number else _error)("device", path, text, f"write {EFA}: {rails} in its limits")


def _settings(plan: Plan, rails: int, env: Mapping[str, str], path: Path) -> Iterator[Remark]:
    """Yield settings that bypass the fabric, whatever else is set."""
    kind, told = plan.fabric.kind, jobset.of_fabric(plan.fabric.kind)
    net, provider = env.get(NET, ""), env.get(PROVIDER, "")
    for name, value in OVER_TCP[kind].items():
        if env.get(name, "").lower() == value:
            tcp = net.lower() in ("", OVER_TCP[kind][NET])
            ends = f"uses TCP instead of {rails} rails" if tcp else f"may use only network {net}, and fails"
            yield _error("environment", path, f"{name}={env[name]}: NCCL {ends}", "take it out")
    if PROVIDER in told and provider not in ("", told[PROVIDER]):
        text = f"{PROVIDER}={provider}: libfabric does not use EFA, past {rails} rails"
        yield _error("environment", path, text, f"write {PROVIDER}: {told[PROVIDER]}")
    others = {jobset.of_fabric(each)[NET].lower() for each in OVER_TCP} - {told[NET].lower()}
    if net.lower() in others:
        text = f"{NET}={net}: the fabric is {kind}, where that network finds no device, and NCCL fails"
        yield _error("environment", path, text, f"write {NET}: {told[NET]}")


def _admitted(pods: _Pods) -> Iterator[Remark]:
    """Yield violations of the toolkit's policy for the namespaces of teams."""
    if pods.spec.get("nodeName"):
        hint = f"take it out; nodeSelector: {{{POOL}: NAME}} chooses a pool"
        yield _error("node", (*pods.path, "nodeName"), kubernetes.NAMES_NODE, hint)
    for index, each in enumerate(map(_map, _list(pods.spec.get("tolerations")))):
        if kubernetes.kept_away(str(each.get("key") or "")):
            yield _error("node", (*pods.path, "tolerations", index), kubernetes.TOLERATES, "take it out")
    if pods.spec.get("priorityClassName"):
        yield _error("priority", (*pods.path, "priorityClassName"), kubernetes.CLASSED, "take it out")


def _access(pods: _Pods) -> Iterator[Remark]:
    """Yield violations of the Pod Security level of a team's namespace that are common in workloads."""
    what = "namespaces of teams have the Pod Security level baseline, which refuses it"
    for name in _SHARED:
        if pods.spec.get(name) is True:
            yield _error("security", (*pods.path, name), f"{name}: {what}", "take it out: devices come by plug-ins")
    for index, volume in enumerate(map(_map, _list(pods.spec.get("volumes")))):
        if "hostPath" in volume:
            path = (*pods.path, "volumes", index, "hostPath")
            yield _error("security", path, f"hostPath: {what}", "mount a claim of storage, or an emptyDir")
    for path, container in (*pods.beforehand, *pods.containers):
        if _map(container.get("securityContext")).get("privileged") is True:
            place = (*path, "securityContext", "privileged")
            yield _error("security", place, f"privileged: {what}", "take it out: devices come by plug-ins")
        added = _list(_map(_map(container.get("securityContext")).get("capabilities")).get("add"))
        for index, name in enumerate(added):
            if name not in _CAPABILITIES:
                place = (*path, "securityContext", "capabilities", "add", index)
                hint = "take it out" + (f": {_MEMLOCK}" if name == "IPC_LOCK" else "")
                yield _error("security", place, f"{name}: {what}", hint)


def _restarts(manifest: Mapping[str, Any]) -> Iterator[Remark]:
    spec = _map(manifest.get("spec"))
    if not _map(spec.get("failurePolicy")).get("maxRestarts"):
        text = "a lost node ends the whole job, in spite of its checkpoints"
        yield _warning("restarts", ("spec",), text, "write failurePolicy: {maxRestarts: 10}")


def _among(plan: Plan, pods: _Pods) -> list[Group]:
    """Return the pools whose nodes the pods may use."""
    chosen = _map(pods.spec.get("nodeSelector")).get(POOL)
    return [pool for pool in kubernetes.pools(plan) if chosen in (None, pool.name)]


def _most(among: Sequence[Group], resource: str) -> float | None:
    """Return the largest amount on one of their nodes; None if it is unknown for some."""
    has = [quantity(kubernetes.capacity(pool).get(resource)) for pool in among]
    known = [each for each in has if each is not None]
    return max(known, default=None) if len(known) == len(has) else None


def _asked(container: Mapping[str, Any]) -> dict[str, Any]:
    return _amounts_asked(_map(container.get("resources")))


def _amounts_asked(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {**_map(resources.get("requests")), **_map(resources.get("limits"))}


def _environment(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in map(_map, _list(container.get("env"))):
        yield str(each.get("name", "")), str(each.get("value", ""))


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _choose(names: Sequence[str]) -> str:
    return f"there {'are' if names[1:] else 'is'} {', '.join(names)}" if names else "there is none"


def _error(id_: str, path: Path, text: str, hint: str) -> Remark:
    return Remark(f"workload.{id_}", "error", path, text, hint)


def _warning(id_: str, path: Path, text: str, hint: str) -> Remark:
    return Remark(f"workload.{id_}", "warning", path, text, hint)
