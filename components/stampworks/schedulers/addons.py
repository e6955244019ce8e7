"""Values for the charts of a Kubernetes' add-ons, and objects for them, from a plan.

All nodes are tainted until their first proof: add-ons that the proof needs, or that run before it, tolerate that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from stampworks.plan import ACCELERATOR, PROOF_TAINT, UNPROVEN_TAINT, AddOn, Image, Plan
from stampworks.schedulers.kubernetes import OURS, UNCOUNTED, Manifest
from stampworks.schedulers.topology.kubernetes import POOL

Values = dict[str, Any]

GPU_OPERATOR: Final = "gpu-operator"
NETWORK_OPERATOR: Final = "network-operator"
RDMA: Final = "shared"
"""The resource rdma/shared, with which a pod gets all NICs of the fabric."""
VENDOR: Final = "15b3"
"""PCI id of the vendor of NVIDIA's NICs."""
_QUEUED = ("batch/job", "jobset.x-k8s.io/jobset")
_QUEUED_OF = {"trainer": "trainer.kubeflow.org/trainjob", "mpi-operator": "kubeflow.org/mpijob"}
_QUEUED_OF_OTHERS = ("ray.io/rayjob", "ray.io/raycluster")
"""Kinds that Kueue queues: always, with this add-on, or if users have installed them. Kueue waits for the CRDs of
listed kinds, possibly for ever."""


def values(plan: Plan, one: AddOn) -> Values:
    """Return the values of its chart; nothing without a chart."""
    return _VALUES[one.name](plan, one) if one.chart else {}


def queueing(plan: Plan) -> Values:
    """Return the configuration of Kueue without its address, for any installer."""
    there = [each.name for each in plan.scheduler.addons if each.by == "cloud"]
    others = (*_QUEUED_OF.values(), *_QUEUED_OF_OTHERS)
    if "kueue" in there:
        others = tuple(kind for name, kind in _QUEUED_OF.items() if name in there)
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": [*_QUEUED, *others]},
        # fair shares of borrowed quota, by the weights of the teams
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        # Include jobs without a queue: otherwise they would bypass the quota.
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": OURS},
        "resources": {"excludeResourcePrefixes": [*UNCOUNTED]},
    }


def chart(one: AddOn) -> tuple[str, str]:
    """Return name and repository of a chart for Helm; the repository is empty if the name contains it."""
    oci = one.repository.startswith("oci://")
    return (f"{one.repository}/{one.chart}", "") if oci else (one.chart, one.repository)


def shared_nics(plan: Plan) -> str:
    """Return the resource name of the fabric's NICs; empty if no add-on of the plan provides it: users of another
    plugin choose the name."""
    return f"rdma/{RDMA}" if NETWORK_OPERATOR in [each.name for each in plan.scheduler.addons] else ""


def named_to_runtime(plan: Plan) -> bool:
    """Return whether the container runtime gets a pod's accelerators by name, so that a variable, which images may set,
    is not trusted. Users of another device plugin may need that variable."""
    return GPU_OPERATOR in [each.name for each in plan.scheduler.addons]


def objects(one: AddOn) -> list[Manifest]:
    """Return the objects to create after its chart, which defines their kinds."""
    return [_nics(one)] if one.name == NETWORK_OPERATOR else []


def _features(plan: Plan, one: AddOn) -> Values:
    # The operators search PCI by vendor alone; the default of Kubernetes is class and vendor.
    found = {"deviceClassWhitelist": ["02", "0200", "0207", "0300", "0302"], "deviceLabelFields": ["vendor"]}
    return {
        "image": _pinned(one, "image"),
        "master": _controller(plan),
        "gc": _controller(plan),
        "worker": {"tolerations": _anywhere(), "config": {"sources": {"pci": found}}},
    }


def _accelerators(plan: Plan, one: AddOn) -> Values:
    driver: Values = {"enabled": bool(one.driver)}
    if one.driver:
        driver |= {"version": one.driver, "rdma": {"enabled": bool(shared_nics(plan))}}
    parts = {image.part: {"version": _tag(image)} for image in one.images}
    # Otherwise an unprivileged pod gets all accelerators of a node without requesting them: runtimeClassName: nvidia,
    # and NVIDIA_VISIBLE_DEVICES=all. Pods of the operator itself are privileged, or get theirs from the plugin
    # (gpu-operator v26.3.3, assets).
    believed = [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}]
    return {
        **parts,
        # node-feature-discovery is already installed, and two would remove each other's labels
        "nfd": {"enabled": False},
        "operator": _controller(plan),
        "daemonsets": {"tolerations": _anywhere()},
        "driver": driver,
        "cdi": {"enabled": True},  # the chart's default: with CDI the plugin sets no variables
        "toolkit": {**parts["toolkit"], "enabled": bool(one.driver), "env": believed},
        "mig": {"strategy": one.mig_strategy},  # the profile is a label of nodes: the default allows no other profile
    }


def _network(plan: Plan, one: AddOn) -> Values:
    return {
        "nfd": {"enabled": False},
        "operator": {"tag": _tag(_image(one, "operator")), **_controller(plan)},
    }


def _nics(one: AddOn) -> Manifest:
    """Return the object by which its operator installs anything."""
    driver, plugin = _image(one, "ofedDriver"), _image(one, "rdmaSharedDevicePlugin")
    shared = [{"resourceName": RDMA, "rdmaHcaMax": 63, "selectors": {"vendors": [VENDOR]}}]
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy"},
        "spec": {
            "ofedDriver": _named(driver),
            "rdmaSharedDevicePlugin": {**_named(plugin), "config": json.dumps({"configList": shared})},
            "tolerations": _anywhere(),
        },
    }


def _named(image: Image) -> Values:
    repository, _, name = image.name.rpartition("/")
    return {"repository": repository, "image": name, "version": image.digest or image.tag}


def _kueue(plan: Plan, one: AddOn) -> Values:
    settings = {
        **queueing(plan),
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        # The chart's own hint: by default the controller handles one job at a time, and sends 20 requests a second.
        "controller": {
            "groupKindConcurrency": {
                **dict.fromkeys(("Job.batch", "Pod", "Workload.kueue.x-k8s.io"), 5),
                **{f"{kind}.kueue.x-k8s.io": 1 for kind in ("LocalQueue", "ClusterQueue", "ResourceFlavor")},
            }
        },
        "clientConnection": {"qps": 50, "burst": 100},
    }
    return {
        "controllerManager": {
            "manager": {
                "image": {**_pinned(one, "manager"), "pullPolicy": "IfNotPresent"},
                # It used 330 MiB for a thousand gangs on 512 nodes, and is killed at the chart's limit of 512 MiB.
                "resources": {"limits": {"memory": "2Gi"}},
            },
            **_controller(plan),
        },
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(settings, indent=1)},  # JSON is YAML, too
    }


def _jobset(plan: Plan, one: AddOn) -> Values:
    return {
        "image": {**_pinned(one, "image"), "pullPolicy": "IfNotPresent"},
        "controller": _controller(plan),
    }


def _trainer(plan: Plan, one: AddOn) -> Values:
    registry, _, repository = _image(one, "image").name.partition("/")
    return {
        "jobset": {"install": False},  # the cluster has it
        "image": {**_pinned(one, "image"), "registry": registry, "repository": repository},
        "manager": _controller(plan),
    }


def _interfaces(plan: Plan, one: AddOn) -> Values:  # noqa: ARG001
    return {"image": _pinned(one, "image"), "tolerations": _anywhere()}


def _metrics(plan: Plan, one: AddOn) -> Values:
    return {"image": _pinned(one, "image"), **_controller(plan)}


_VALUES: Mapping[str, Callable[[Plan, AddOn], Values]] = {
    "node-feature-discovery": _features,
    GPU_OPERATOR: _accelerators,
    NETWORK_OPERATOR: _network,
    "efa-device-plugin": _interfaces,
    "kueue": _kueue,
    "jobset": _jobset,
    "trainer": _trainer,
    "metrics-server": _metrics,
}


def _pinned(one: AddOn, part: str) -> Values:
    image = _image(one, part)
    return {"repository": image.name, "tag": _tag(image)}


def _image(one: AddOn, part: str) -> Image:
    return next(each for each in one.images if each.part == part)


def _tag(image: Image) -> str:
    """Return the tag, with the digest if it is known, so that the image cannot be replaced."""
    return f"{image.tag}@{image.digest}" if image.digest else image.tag


def _controller(plan: Plan) -> Values:
    """Return the placement of controllers: nodes for such pods if the cloud creates some, otherwise any node."""
    apart = {"nodeSelector": {POOL: plan.controller.name}} if plan.managed else {}
    return {**apart, "tolerations": _anywhere()}


def _anywhere() -> list[Values]:
    return [{"key": key, "operator": "Exists"} for key in (ACCELERATOR, UNPROVEN_TAINT, PROOF_TAINT)]
