"""Lint warns of workloads that would not run, or would bypass the fabric, before they are submitted."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks import planning
from stampworks.declaration import load_stack, load_value
from stampworks.plan import Plan
from stampworks.schedulers import kubernetes
from stampworks.schedulers.topology.kubernetes import POOL
from stampworks.schedulers.workload import Remark, lint

from tests.cluster.kubernetes import gang
from tests.schedulers import schemas
from tests.schedulers.conftest import STACKS

SCHEDULER = {
    "kind": "kubernetes",
    "addons": {"trainer": True, "mpi_operator": True},
    "priorities": [{"name": "normal", "weight": 1}],
    "accounts": [{"name": "research"}, {"name": "product"}],
}


def planned(**fields: Any) -> Plan:
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 16}]
    declared = {"version": 1, "name": "test", "cloud": "local", "pools": pools, "scheduler": SCHEDULER, **fields}
    return planning.plan(load_value(declared, "test"))


def on_aws() -> Plan:
    pools = [{"name": "gpu", "machine": "p5.48xlarge", "count": 4}]
    return planned(cloud="aws", region="us-east-1", pools=pools)


def on_azure(network_operator: bool = True, **fields: Any) -> Plan:
    """A plan on Azure, with InfiniBand."""
    pools = [{"name": "gpu", "machine": "ND96isr_H100_v5", "count": 4}]
    added = {"trainer": True, "mpi_operator": True, "network_operator": network_operator}
    scheduler = {**SCHEDULER, "addons": added}
    return planned(cloud="azure", region="eastus", pools=pools, scheduler=scheduler, **fields)


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pods(manifest)["spec"]["containers"][0]
    return found


def pods(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return found


def good(nodes: int = 4) -> dict[str, Any]:
    made = copy.deepcopy(gang("mine", "research", nodes))
    container(made)["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    pods(made)["spec"]["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    return made


def good_on_aws() -> dict[str, Any]:
    made = good()
    container(made)["resources"]["limits"] |= {"vpc.amazonaws.com/efa": 32}
    told = {"FI_PROVIDER": "efa", "NCCL_NET": "AWS Libfabric", "FI_EFA_USE_HUGE_PAGE": "0"}
    container(made)["env"] = [{"name": name, "value": value} for name, value in told.items()]
    layer = "topology.k8s.aws/network-node-layer-3"
    pods(made)["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-preferred-topology": layer}
    return made


def good_on_azure() -> dict[str, Any]:
    made = good()
    del pods(made)["metadata"]["annotations"]  # the nodes of that pool have no places
    container(made)["resources"]["limits"]["rdma/shared"] = 1
    container(made)["env"] = [{"name": "NCCL_NET", "value": "IB"}]
    return made


def said(remarks: list[Remark]) -> list[tuple[str, str, str]]:
    return [(one.id.removeprefix("workload."), one.severity, one.text) for one in remarks]


HUGE = "it asks for huge pages, which only some images of nodes reserve: on others it waits for ever"
FABRIC = ("topology", "device", "huge-pages", "environment", "environment")
"""Remarks on several pods that have none of these settings."""


def test_good_workload_has_no_findings() -> None:
    assert not lint(planned(), good())
    assert not lint(on_aws(), good_on_aws())
    assert not lint(on_azure(), good_on_azure())


def test_names_that_are_none_are_named_with_those_there_are() -> None:
    made = good()
    made["metadata"] |= {"namespace": "reserch", "labels": {"kueue.x-k8s.io/priority-class": "urgent"}}
    pods(made)["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "topology.stampworks/rack"}
    found = lint(planned(), made)
    assert said(found) == [
        ("namespace", "error", "no team is called 'reserch'"),
        ("queue", "warning", "it names no queue, and waits in the default one, main"),
        ("priority", "error", "no priority is called 'urgent'"),
        ("topology", "error", "the topology has no level 'topology.stampworks/rack'"),
    ]
    assert [one.hint for one in found] == [
        "there are research, product",
        "write the label kueue.x-k8s.io/queue-name: main",
        "there is normal",
        "there are topology.stampworks/leaf, kubernetes.io/hostname",
    ]


@pytest.mark.parametrize(("queue", "wrong"), [("default", False), ("gpu", False), ("fast", True), (None, True)])
def test_the_default_queue_has_two_names(queue: str | None, wrong: bool) -> None:
    """The default queue counts, at any place of the list: the first queue may have simulated nodes."""
    plan = planning.plan(load_stack("local-k8s", STACKS))
    made = good()
    made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    if queue is None:
        del made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    found = [one for one in lint(plan, made) if one.id == "workload.queue"]
    assert [one.severity for one in found] == ([] if not wrong else ["error" if queue else "warning"])
    if queue is None:
        assert found[0].hint == "write the label kueue.x-k8s.io/queue-name: gpu"


@pytest.mark.parametrize(
    ("queue", "priority", "usual"),
    [
        ("fast", None, "high"),
        ("fast", "normal", ""),
        ("main", None, ""),
        ("nowhere", None, ""),
        (None, None, "normal"),
        ("default", None, "normal"),
    ],
)
def test_the_priority_of_a_queue_is_a_label_that_somebody_writes(
    queue: str | None, priority: str | None, usual: str
) -> None:
    queues = [
        {"name": "main", "pools": ["gpu"]},
        {"name": "fast", "pools": ["gpu"], "priority": "high"},
        {"name": "gpu", "pools": ["gpu"], "default": True, "priority": "normal"},
    ]
    priorities = [{"name": "normal", "weight": 1}, {"name": "high", "weight": 2}]
    made = good()
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": priority}
    made["metadata"]["labels"] = {name: value for name, value in labels.items() if value}
    plan = planned(scheduler={**SCHEDULER, "queues": queues, "priorities": priorities})
    found = [one for one in lint(plan, made) if one.id == "workload.priority"]
    waits = "fast" if usual == "high" else "gpu"
    text = f"it names no priority, and queue {waits} gives {usual} to what `stampworks submit` makes alone"
    hint = f"write the label kueue.x-k8s.io/priority-class: {usual}"
    wanted = Remark("workload.priority", "warning", ("metadata", "labels"), text, hint)
    assert found == ([wanted] if usual else [])


def test_more_than_a_node_has_runs_nowhere() -> None:
    made = good()
    container(made)["resources"] = {
        "limits": {"nvidia.com/gpu": "1k", "memory": "900Gi"},
        "requests": {"cpu": "16001m"},
    }
    assert said(lint(planned(), made)) == [
        ("size", "error", "1000 of nvidia.com/gpu, and no node that it may be on has more than 8"),
        ("size", "error", "16.001 of cpu, and no node that it may be on has more than 16"),
        ("size", "error", "900Gi of memory, and no node that it may be on has more than 1.95312Gi"),
    ]
    for amount, fits in (("2000Mi", True), ("2097152000", True), ("2001Mi", False), ("2098M", False), ("2.1G", False)):
        container(made)["resources"] = {"limits": {"nvidia.com/gpu": 8, "memory": amount}}
        assert (not lint(planned(), made)) == fits, amount


@pytest.mark.parametrize(
    ("change", "id_", "severity", "text"),
    [
        (
            lambda one: one["resources"]["limits"].pop("vpc.amazonaws.com/efa"),
            "device",
            "error",
            "it asks for 0 of 32 EFA devices, so that the others stay unused",
        ),
        (
            lambda one: one["resources"]["limits"].update({"vpc.amazonaws.com/efa": "4"}),
            "device",
            "warning",
            "it asks for 4 of 32 EFA devices, so that the others stay unused",
        ),
        (
            lambda one: one["env"].pop(2),
            "huge-pages",
            "warning",
            "it asks for no huge pages, which EFA's provider uses for each device",
        ),
        (
            lambda one: one["resources"]["limits"].update({"hugepages-2Mi": "5120Mi", "memory": "64Gi"}),
            "huge-pages",
            "warning",
            HUGE,
        ),
        (
            lambda one: one["env"].pop(0),
            "environment",
            "error",
            "libfabric is not told to use EFA: where EFA fails, it would silently use TCP",
        ),
        (
            lambda one: one["env"].pop(1),
            "environment",
            "error",
            "NCCL is not told which network to use: where the fabric's fails to load, it would silently use TCP",
        ),
        (
            lambda one: one["env"][1].update({"value": "Socket"}),
            "environment",
            "error",
            "NCCL_NET=Socket: NCCL uses TCP instead of 32 rails",
        ),
        (
            lambda one: one["env"][1].update({"value": "IB"}),
            "environment",
            "error",
            "NCCL_NET=IB: the fabric is efa, where that network finds no device, and NCCL fails",
        ),
        (
            lambda one: one["env"][0].update({"value": "tcp"}),
            "environment",
            "error",
            "FI_PROVIDER=tcp: libfabric does not use EFA, past 32 rails",
        ),
        (
            lambda one: one["env"].append({"name": "NCCL_NET_PLUGIN", "value": "none"}),
            "environment",
            "error",
            "NCCL_NET_PLUGIN=none: NCCL may use only network AWS Libfabric, and fails",
        ),
        (
            lambda one: one["resources"]["limits"].update({"vpc.amazonaws.com/efa": 64}),
            "size",
            "error",
            "64 of vpc.amazonaws.com/efa, and no node that it may be on has more than 32",
        ),
    ],
)
def test_fallback_to_tcp_is_reported(change: Any, id_: str, severity: str, text: str) -> None:
    made = good_on_aws()
    change(container(made))
    assert said(lint(on_aws(), made)) == [(id_, severity, text)]


def test_hint_avoids_huge_pages() -> None:
    """Our nodes and EKS's image reserve none: a pod that requests them would wait for ever."""
    made = good_on_aws()
    container(made)["env"].pop()
    [found] = lint(on_aws(), made)
    assert found.hint == 'write FI_EFA_USE_HUGE_PAGE: "0" in its env'
    limits = container(made)["resources"]["limits"]
    limits |= {"hugepages-2Mi": "5120Mi", "memory": "64Gi"}
    [found] = lint(on_aws(), made)
    assert (found.text, found.severity) == (HUGE, "warning")
    assert found.hint == 'take them out, and write FI_EFA_USE_HUGE_PAGE: "0" in its env'


def test_where_nobody_knows_places_nobody_is_told_to_want_one() -> None:
    """Kueue would never admit such a request; a request for a single node is allowed."""
    pools = [{"name": "gpu", "machine": "p5.48xlarge", "count": 4}]
    flat = planned(cloud="aws", region="us-east-1", pools=pools, scheduler={**SCHEDULER, "topology": "flat"})
    made = good_on_aws()
    [found] = lint(flat, made)
    assert (found.id, found.severity) == ("workload.topology", "error")
    assert found.hint == "there is kubernetes.io/hostname"
    del pods(made)["metadata"]["annotations"]
    assert not lint(flat, made)


def test_huge_pages_are_asked_for_beside_memory() -> None:
    """Otherwise the server refuses the pod, long after it has accepted its owner."""
    made = good()
    container(made)["resources"]["limits"]["hugepages-1Gi"] = "1Gi"
    found, other = lint(planned(), made)
    assert (found.id, found.severity) == ("workload.huge-pages", "error")
    container(made)["resources"]["requests"] = {"cpu": "1"}
    assert lint(planned(), made) == [other]
    assert (other.text, other.severity, other.hint) == (HUGE, "warning", "take them out")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Deployment", "a Deployment has no queue, so that teams must not make one"),
        ("PyTorchJob", "a PyTorchJob has no queue, so that teams must not make one"),
        ("MPIJob", "MPIJob needs mpi-operator, which the cluster does not have"),
        ("TrainingRuntime", "TrainingRuntime needs trainer, which the cluster does not have"),
        ("RayJob", ""),
        ("Job", ""),
    ],
)
def test_workload_without_a_queue_is_an_error(kind: str, text: str) -> None:
    plan = planned(scheduler={**SCHEDULER, "addons": {}})
    found = [one for one in lint(plan, {**good(), "kind": kind}) if one.id == "workload.kind"]
    assert [(one.severity, one.text) for one in found] == ([("error", text)] if text else [])


def test_pods_that_talk_to_nobody_need_no_fabric() -> None:
    assert not lint(on_aws(), good(nodes=1))


def test_more_devices_than_a_node_has_are_waited_for_by_one_pod_too() -> None:
    made = good(nodes=1)
    container(made)["resources"]["limits"]["vpc.amazonaws.com/efa"] = 33
    text = "33 of vpc.amazonaws.com/efa, and no node that it may be on has more than 32"
    assert said(lint(on_aws(), made)) == [("size", "error", text)]


def leading(accelerators: int, nodes: int = 1) -> dict[str, Any]:
    """A good JobSet with a pod of its own template, and other pods without fabric settings."""
    made, other = good_on_aws(), good(nodes)
    job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    job |= {"parallelism": 1, "completions": 1}
    leader = other["spec"]["replicatedJobs"][0]
    leader["name"] = "leader"
    container(other)["resources"]["limits"] = {"nvidia.com/gpu": accelerators} if accelerators else {"cpu": "1"}
    del pods(other)["metadata"]["annotations"]
    made["spec"]["replicatedJobs"].insert(0, leader)
    return made


def test_a_leader_and_its_worker_are_two_pods_that_talk_to_each_other() -> None:
    """Each has its own template with a single pod."""
    made = leading(8)
    assert said(lint(on_aws(), made)) == [
        ("topology", "warning", "2 pods without a required place in the fabric"),
        ("device", "error", "it asks for 0 of 32 EFA devices, so that the others stay unused"),
        ("huge-pages", "warning", "it asks for no huge pages, which EFA's provider uses for each device"),
        (
            "environment",
            "error",
            "libfabric is not told to use EFA: where EFA fails, it would silently use TCP",
        ),
        (
            "environment",
            "error",
            "NCCL is not told which network to use: where the fabric's fails to load, it would silently use TCP",
        ),
    ]
    del made["spec"]["failurePolicy"]
    assert "workload.restarts" in [one.id for one in lint(on_aws(), made)]


def test_pods_without_a_place_are_told_how_to_wish_for_one() -> None:
    """A required place would keep a gang waiting that fits nowhere else."""
    made = good_on_aws()
    del pods(made)["metadata"]["annotations"]
    [found] = lint(on_aws(), made)
    level = "topology.k8s.aws/network-node-layer-3"
    assert (found.id, found.severity) == ("workload.topology", "warning")
    assert found.hint == f"write the annotation kueue.x-k8s.io/podset-preferred-topology: {level}"


@pytest.mark.parametrize(("accelerators", "nodes", "judged"), [(4, 1, False), (0, 1, False), (4, 2, True)])
def test_single_partial_pod_needs_no_fabric(accelerators: int, nodes: int, judged: bool) -> None:
    """A single evaluator or launcher needs no fabric; several with accelerators do."""
    found = [one.id for one in lint(on_aws(), leading(accelerators, nodes))]
    assert found == ([] if not judged else [f"workload.{each}" for each in FABRIC])


@pytest.mark.parametrize(
    ("operator", "hint"),
    [
        (True, "write rdma/shared: 1 in its limits"),
        (False, "ask for a resource of the cluster's RDMA device plug-in, as rdma/NAME: 1"),
    ],
)
def test_on_infiniband_a_device_is_asked_for(operator: bool, hint: str) -> None:
    """Its name is known if the toolkit's add-on offers it."""
    plan, made = on_azure(network_operator=operator), good_on_azure()
    del container(made)["resources"]["limits"]["rdma/shared"]
    [found] = lint(plan, made)
    text = "it asks for no RDMA device, so that none of 8 rails is in the container"
    assert (found.id, found.severity, found.text, found.hint) == ("workload.device", "error", text, hint)
    container(made)["resources"]["limits"]["rdma/hca"] = 1
    assert not lint(plan, made)


def test_on_infiniband_nccl_is_told_its_own_network() -> None:
    made = good_on_azure()
    container(made)["env"] = []
    [found] = lint(on_azure(), made)
    assert (found.id, found.severity) == ("workload.environment", "error")
    assert found.hint == "write NCCL_NET: IB, and NCCL fails instead"
    container(made)["env"] = [{"name": "NCCL_NET", "value": "AWS Libfabric"}]
    [found] = lint(on_azure(), made)
    assert (found.text, found.hint) == (
        "NCCL_NET=AWS Libfabric: the fabric is infiniband, where that network finds no device, and NCCL fails",
        "write NCCL_NET: IB",
    )


@pytest.mark.parametrize(
    ("name", "value", "efa", "infiniband"),
    [
        ("NCCL_IB_DISABLE", "1", "", "NCCL uses TCP instead of 8 rails"),
        ("NCCL_NET_PLUGIN", "none", "NCCL uses TCP instead of 32 rails", ""),
        ("NCCL_IB_DISABLE", "0", "", ""),
        ("NCCL_NET_PLUGIN", "aws-ofi", "", ""),
    ],
)
def test_each_fabric_is_left_alone_by_another_setting(name: str, value: str, efa: str, infiniband: str) -> None:
    """EFA is a plugin, and InfiniBand part of NCCL: a setting that disables one does not affect the other. A named
    network excludes all others."""
    for plan, made, text, net in (
        (on_aws(), good_on_aws(), efa, "AWS Libfabric"),
        (on_azure(), good_on_azure(), infiniband, "IB"),
    ):
        env = container(made)["env"]
        env.append({"name": name, "value": value})
        fails = f"{name}={value}: NCCL may use only network {net}, and fails"
        assert said(lint(plan, made)) == ([("environment", "error", fails)] if text else [])
        env.remove({"name": "NCCL_NET", "value": net})
        found = [(one.id, one.text, one.hint) for one in lint(plan, made) if one.text.startswith(name)]
        assert found == ([("workload.environment", f"{name}={value}: {text}", "take it out")] if text else [])


def test_predicts_refusals_of_a_team_namespace() -> None:
    made = good()
    pods(made)["spec"] |= {"hostNetwork": True, "volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}
    container(made)["securityContext"] = {"privileged": True}
    pods(made)["spec"]["initContainers"] = [{"name": "limits", "securityContext": {"privileged": True}}]
    found = lint(planned(), made)
    assert [one.path[-1] for one in found] == ["hostNetwork", "hostPath", "privileged", "privileged"]
    assert [one.path[-4] for one in found[2:]] == ["initContainers", "containers"]
    assert {one.severity for one in found} == {"error"}


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("", True),
        (None, True),
        ("stampworks/proof", True),
        ("node.kubernetes.io/unschedulable", True),
        ("node.kubernetes.io/not-ready", False),
    ],
)
def test_predicts_refusals_of_the_server(key: str | None, refused: bool) -> None:
    """The message is that of the server."""
    made = good()
    pods(made)["spec"]["tolerations"] = [{"key": key, "operator": "Exists"}]
    found = lint(planned(), made)
    assert [(one.id, one.severity, one.path[-2:]) for one in found] == [
        ("workload.node", "error", ("tolerations", 0))
    ] * refused
    if refused:
        pods(made)["spec"] |= {"nodeName": "gpu-001", "priorityClassName": "system-node-critical"}
        policy, *_ = [one for one in kubernetes.objects(planned()) if one["kind"] == "ValidatingAdmissionPolicy"]
        why = [each["message"] for each in policy["spec"]["validations"]]
        assert [one.text for one in lint(planned(), made)] == why[:3]


def test_resource_without_quota_is_an_error() -> None:
    """Resources that no quota counts are excepted."""
    made = good()
    limits = container(made)["resources"]["limits"]
    limits |= {"ephemeral-storage": "1Ti", "rdma/shared": "1"}
    assert not lint(planned(), made)
    limits |= {"nvidia.com/mig-1g.10gb": "1"}
    [found] = lint(planned(), made)
    assert (found.id, found.text) == ("workload.quota", "no queue has nvidia.com/mig-1g.10gb: it would wait for ever")
    assert found.hint.startswith("take it out: there are nvidia.com/gpu, cpu, memory, and names with these beginnings")


def test_poor_settings_are_warnings() -> None:
    """A small /dev/shm, pods anywhere, a job that no restart saves."""
    made = good()
    del container(made)["volumeMounts"], pods(made)["metadata"]["annotations"], made["spec"]["failurePolicy"]
    assert [(one.id, one.severity) for one in lint(planned(), made)] == [
        *(("workload.shm", "warning"), ("workload.topology", "warning"), ("workload.restarts", "warning"))
    ]


@pytest.mark.parametrize(
    ("volume", "memory"),
    [
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}, True),
        ({"emptyDir": {}}, False),
        ({"emptyDir": {"medium": "HugePages"}}, False),
        ({"persistentVolumeClaim": {"claimName": "data"}}, False),
    ],
)
def test_memory_to_share_is_memory(volume: dict[str, Any], memory: bool) -> None:
    """This includes a pod with an accelerator, whose data loaders share memory."""
    made = good(nodes=1)
    container(made)["resources"]["limits"]["nvidia.com/gpu"] = 1
    pods(made)["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "shm", **volume}]
    text = "the volume at /dev/shm is not in memory: NCCL and data loaders would share memory through a disk"
    found = lint(planned(), made)
    assert said(found) == ([] if memory else [("shm", "warning", text)])
    assert [one.path[-2:] for one in found] == ([] if memory else [("volumes", 1)])


def test_pods_are_found_in_whatever_has_them() -> None:
    """Places of containers in the spec of a Job, an MPIJob, and a TrainJob's runtime."""
    spec = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "9"}}}]}
    job = {"kind": "Job", "spec": {"parallelism": 2, "template": {"spec": spec}}}
    mpi = {"kind": "MPIJob", "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": spec}}}}}
    for manifest, path in (
        (job, ("spec", "template", "spec", "containers", 0, "resources")),
        (mpi, ("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers", 0, "resources")),
    ):
        assert path in [one.path for one in lint(planned(), manifest) if one.id == "workload.size"]
    assert not lint(planned(), {"kind": "ConfigMap", "data": {"spec": "containers"}})


NAMES = (
    *("spec", "containers", "metadata", "labels", "env", "resources", "limits", "name", "volumes", "volumeMounts"),
    *("mountPath", "emptyDir", "trainer", "numNodes", "resourcesPerNode", "nvidia.com/gpu"),
    *("runtimePatches", "trainingRuntimeSpec", "template", "replicatedJobs"),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("/dev/shm"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=30,
)
AMAZON = on_aws()


@given(st.sampled_from(["JobSet", "TrainJob", "Job"]), ANYTHING, ANYTHING)
def test_no_manifest_breaks_it(kind: str, spec: Any, whole: Any) -> None:
    """This holds for any shape."""
    for manifest in (
        whole,
        {"kind": kind, "spec": spec},
        {"kind": kind, "spec": {"trainer": spec, "runtimePatches": whole}},
    ):
        for one in lint(AMAZON, manifest):
            assert one.text
            assert one.hint


def mpi(workers: int) -> dict[str, Any]:
    """The pods of a good JobSet as an MPIJob's workers, with a launcher that asks for nothing."""
    made = good_on_aws()
    template = pods(made)
    launcher = {"spec": {"containers": [{"name": "launcher", "image": "none"}]}}
    of = {"Launcher": {"replicas": 1, "template": launcher}, "Worker": {"replicas": workers, "template": template}}
    return {"kind": "MPIJob", "metadata": made["metadata"], "spec": {"mpiReplicaSpecs": of}}


def test_workers_of_an_mpijob_are_counted_by_their_replicas() -> None:
    """A launcher alone uses the fabric as little as a single worker."""
    assert not lint(on_aws(), mpi(4))
    for workers, wrong in ((4, [("environment", "error")]), (1, [])):
        made = mpi(workers)
        made["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"].pop(0)
        found = lint(on_aws(), made)
        assert [(one.id.removeprefix("workload."), one.severity) for one in found] == wrong
        assert all("Worker" in one.path for one in found)


def runtime(nodes: int) -> dict[str, Any]:
    """A runtime with the same pods for a TrainJob, which sets their number."""
    made = good_on_aws()
    job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    job.pop("parallelism")
    job.pop("completions")
    metadata = {"name": "torch", "namespace": "research"}
    return {
        "kind": "TrainingRuntime",
        "metadata": metadata,
        "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": made["spec"]}},
    }


@pytest.mark.parametrize("nodes", [1, 4])
def test_pods_of_a_runtime_are_judged_as_several(nodes: int) -> None:
    """A job that names it may ask for any number. It waits in no queue itself."""
    made = runtime(nodes)
    assert not lint(on_aws(), made)
    [job] = made["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["env"].pop(0)
    job["template"]["spec"]["template"]["metadata"].pop("annotations")
    assert [one.id for one in lint(on_aws(), made)] == ["workload.topology", "workload.environment"]


def test_a_trainjob_has_no_pods_and_is_judged_all_the_same() -> None:
    """The lint checks its queue and its requests per node; the runtime has the rest."""
    job: dict[str, Any] = {
        "kind": "TrainJob",
        "metadata": {"name": "mine", "namespace": "research"},
        "spec": {"trainer": {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 9}}}},
    }
    found = lint(planned(), job)
    assert [(one.id, one.path) for one in found] == [
        ("workload.queue", ("metadata", "labels")),
        ("workload.size", ("spec", "trainer", "resourcesPerNode")),
    ]
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "main"}
    job["spec"]["trainer"]["resourcesPerNode"]["limits"]["nvidia.com/gpu"] = 8
    assert not lint(planned(), job)


def trainjob(**trainer: Any) -> dict[str, Any]:
    metadata = {"name": "mine", "namespace": "research", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    return {"kind": "TrainJob", "metadata": metadata, "spec": {"runtimeRef": {"name": "torch"}, "trainer": trainer}}


@pytest.mark.parametrize(
    ("limits", "id_", "text"),
    [
        (
            {"nvidia.com/gpu": 8},
            "device",
            "it asks for 0 of 32 EFA devices, so that the others stay unused",
        ),
        (
            {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 64},
            "size",
            "64 of vpc.amazonaws.com/efa, and no node that it may be on has more than 32",
        ),
        (
            {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi", "memory": "1Gi"},
            "huge-pages",
            HUGE,
        ),
        (
            {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32, "amd.com/gpu": 8},
            "quota",
            "no queue has amd.com/gpu: it would wait for ever",
        ),
        ({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}, "", ""),
        ({"cpu": 8}, "", ""),
        ({}, "", ""),
    ],
)
def test_requests_of_a_trainjob_replace_its_runtimes(limits: dict[str, Any], id_: str, text: str) -> None:
    """If a TrainJob says how to use a node but not how many, several are assumed. Missing variables may come from the
    runtime."""
    for several in ({"numNodes": 4}, {}):
        found = lint(on_aws(), trainjob(resourcesPerNode={"limits": limits}, **several))
        place = ("spec", "trainer", "resourcesPerNode")
        assert [(one.id, one.severity, one.path, one.text) for one in found] == (
            [(f"workload.{id_}", "warning" if text == HUGE else "error", place, text)] if text else []
        )
    alone = lint(on_aws(), trainjob(resourcesPerNode={"limits": limits}, numNodes=1))
    assert [one.text for one in alone] == ([text] if text and id_ != "device" else [])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("NCCL_NET", "Socket", "NCCL_NET=Socket: NCCL uses TCP instead of 32 rails"),
        ("NCCL_NET", "IB", "NCCL_NET=IB: the fabric is efa, where that network finds no device, and NCCL fails"),
        ("FI_PROVIDER", "tcp", "FI_PROVIDER=tcp: libfabric does not use EFA, past 32 rails"),
        ("NCCL_NET", "AWS Libfabric", ""),
        ("NCCL_DEBUG", "INFO", ""),
    ],
)
def test_variables_of_a_trainjob_win(name: str, value: str, text: str) -> None:
    env = [{"name": name, "value": value}]
    for several in ({"numNodes": 4}, {}):
        found = lint(on_aws(), trainjob(env=env, **several))
        assert [(one.id, one.severity, one.path, one.text) for one in found] == (
            [("workload.environment", "error", ("spec", "trainer", "env"), text)] if text else []
        )
    assert not lint(on_aws(), trainjob(env=env, numNodes=1))


def patched(job: dict[str, Any], pods: dict[str, Any]) -> dict[str, Any]:
    """Return a TrainJob that overrides this in the spec of its pods."""
    pod = {"template": {"spec": pods}}
    jobs = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": pod}}]}}}
    patches = [{"manager": "stampworks.dev/test", "trainingRuntimeSpec": jobs}]
    return {**job, "spec": {**job["spec"], "runtimePatches": patches}}


PATCHED = ("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template", "spec", "replicatedJobs", 0)
OF_PODS = (*PATCHED, "template", "spec", "template", "spec")


@pytest.mark.parametrize(
    ("patch", "path", "text"),
    [
        (
            {"containers": [{"name": "node", "env": [{"name": "NCCL_NET", "value": "Socket"}]}]},
            ("containers", 0, "env"),
            "NCCL_NET=Socket: NCCL uses TCP instead of 32 rails",
        ),
        ({"tolerations": [{"operator": "Exists"}]}, ("tolerations", 0), kubernetes.TOLERATES),
        (
            {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
            ("volumes", 0, "hostPath"),
            "hostPath: namespaces of teams have the Pod Security level baseline, which refuses it",
        ),
        (
            {"initContainers": [{"name": "before", "securityContext": {"privileged": True}}]},
            ("initContainers", 0, "securityContext", "privileged"),
            "privileged: namespaces of teams have the Pod Security level baseline, which refuses it",
        ),
        ({"nodeSelector": {POOL: "gpu"}}, (), ""),
    ],
)
@pytest.mark.prepared
def test_patches_of_a_trainjob_are_checked(patch: dict[str, Any], path: Any, text: str) -> None:
    """The patch may change containers or other fields."""
    job = patched(trainjob(numNodes=4), patch)
    made = {"apiVersion": "trainer.kubeflow.org/v1alpha1", **job}
    assert not schemas.wrong(made)
    found = lint(on_aws(), made)
    assert [(one.severity, one.path, one.text) for one in found] == (
        [("error", (*OF_PODS, *path), text)] if text else []
    )


def test_a_trainjob_is_held_to_the_nodes_that_its_patches_choose() -> None:
    pools = [
        {"name": "big", "machine": "p5.48xlarge", "count": 4},
        {"name": "small", "machine": "g6.8xlarge", "count": 4},
    ]
    plan = planned(cloud="aws", region="us-east-1", pools=pools)
    job = trainjob(resourcesPerNode={"limits": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}}, numNodes=4)
    assert not lint(plan, job)
    found = lint(plan, patched(job, {"nodeSelector": {POOL: "small"}}))
    assert "8 of nvidia.com/gpu, and no node that it may be on has more than 1" in [one.text for one in found]


def test_memory_is_not_locked_by_a_capability() -> None:
    """A team's namespace refuses the pod; allowed capabilities give no finding."""
    made = good()
    container(made)["securityContext"] = {"capabilities": {"add": ["KILL", "IPC_LOCK"]}}
    [found] = lint(planned(), made)
    assert (found.id, found.path[-2:]) == ("workload.security", ("add", 1))
    assert found.text.startswith("IPC_LOCK: namespaces of teams have the Pod Security level baseline")
    assert found.hint == (
        "take it out: the limit of locked memory comes from the node, and a proof measures it where pods start "
        "from an image"
    )


def test_unknown_size_of_a_pool_passes() -> None:
    plan = planned()
    [gpu] = plan.pools
    other = replace(gpu, name="other", machine=replace(gpu.machine, memory_mib=None))
    made = good()
    container(made)["resources"]["limits"]["memory"] = "900Gi"
    assert not lint(replace(plan, groups=(*plan.groups, other)), made)
    pods(made)["spec"]["nodeSelector"] = {"stampworks/pool": "gpu"}
    assert [one.id for one in lint(replace(plan, groups=(*plan.groups, other)), made)] == ["workload.size"]
