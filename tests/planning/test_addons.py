"""Add-ons of a Kubernetes, their installers, and messages about conflicts."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, fingerprint
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.addons import addons
from stampworks.planning.rules.findings import Finding

MACHINES = {"aws": ("p5", "us-east-1"), "azure": ("ND96isr_H100_v5", "eastus"), "local": ("sim-h100", "")}


def planned(
    cloud: str = "azure",
    machine: str = "",
    kind: str = "kubernetes",
    region: str = "",
    egress: str = "",
    **declared: Any,
) -> Plan:
    usual, usual_region = MACHINES[cloud]
    region = region or usual_region
    pool = {"name": "gpu", "machine": machine or usual, "count": 2}
    scheduler = {"kind": kind, **({"addons": declared} if declared else {})}
    whole = {"version": 1, "name": "test", "cloud": cloud, "pools": [pool], "scheduler": scheduler}
    whole |= {"network": {"egress": egress}} if egress else {}
    return planning.plan(load_value({**whole, **({"region": region} if region else {})}, "test"))


def by(plan: Plan) -> dict[str, str]:
    return {each.name: each.by for each in plan.scheduler.addons}


def why(plan: Plan, name: str) -> str:
    return next(each.why for each in plan.reasons if each.path == f"scheduler.addons.{name}")


def found(plan: Plan) -> dict[str, Finding]:
    return {f"{each.id} {each.subject}".rstrip(): each for each in addons(plan)}


@pytest.mark.parametrize(
    ("cloud", "machine", "there"),
    [
        ("azure", "ND96isr_H100_v5", {"node-feature-discovery", "gpu-operator", "network-operator"}),
        ("aws", "p5", {"node-feature-discovery", "gpu-operator", "efa-device-plugin"}),
        ("aws", "m7i", set()),
        ("azure", "ND96isr_MI300X_v5", {"node-feature-discovery", "network-operator"}),
    ],
)
def test_hardware_says_which_operators_there_are(cloud: str, machine: str, there: set[str]) -> None:
    """Queues, gangs and usage metrics are everywhere; operators of other jobs are optional."""
    own = {"node-monitoring-agent": "cloud"} if cloud == "aws" else {}
    assert by(planned(cloud, machine)) == dict.fromkeys(there | {"kueue", "jobset", "metrics-server"}, "helm") | own


def test_hardware_that_no_pod_can_have() -> None:
    """Every run requests it, and would wait for ever; users may install a plugin for it."""
    off = found(planned("aws", gpu_operator=False, efa_device_plugin=False))
    said = {name: each for name, each in off.items() if name.startswith("addons.hardware")}
    assert {name: each.outcome for name, each in said.items()} == {
        "addons.hardware gpu-operator": "warn",
        "addons.hardware efa-device-plugin": "warn",
    }
    gpus = said["addons.hardware gpu-operator"]
    assert gpus.place == "scheduler.addons.gpu_operator"
    assert gpus.text.startswith("pods cannot use the devices of gpu-operator: it is switched off, and p5 has ")
    assert not [name for name in found(planned("aws", "m7i", gpu_operator=False)) if name.startswith("addons.hardware")]


def test_addon_of_one_cloud_is_refused_elsewhere() -> None:
    """On that cloud it is part of every Kubernetes, and a switch removes it."""
    assert "node-monitoring-agent" not in by(planned("aws", node_monitoring_agent=False))
    said = found(planned(node_monitoring_agent=True))["addons.hardware node-monitoring-agent"]
    assert (said.verdict, said.hint) == ("fail", "write node_monitoring_agent: false")
    assert said.text == "node-monitoring-agent is for another cloud's Kubernetes than azure's"


def test_here_the_machine_room_brings_what_there_is() -> None:
    plan = planned("local")
    assert by(plan) == {"kueue": "cloud", "jobset": "cloud"}
    assert why(plan, "kueue").endswith("the machine room runs it beside the control plane: it is not installed")
    assert why(plan, "gpu_operator").startswith("not installed: no node has accelerators that it supports")
    assert found(plan)["addons.fit"].verdict == "pass"


def test_an_image_that_has_a_driver_is_given_no_other() -> None:
    operator = {cloud: of(planned(cloud), "gpu-operator").driver for cloud in ("aws", "azure")}
    [driver] = {each.packages["nvidia-driver-cuda"] for each in [catalog.releases()["2026.11"].hardware["driver"]]}
    assert operator == {"aws": "", "azure": driver}
    assert of(planned("aws", gpu_driver=True), "gpu-operator").driver == driver
    assert of(planned("azure", gpu_driver=False), "gpu-operator").driver == ""


@pytest.mark.parametrize(
    ("cloud", "declared", "verdict", "text"),
    [
        ("aws", {}, "pass", "nodes of pool gpu have a driver for h100: the image that EKS has"),
        ("azure", {}, "pass", "the GPU operator brings nodes of pool gpu a driver for h100, 580."),
        ("azure", {"gpu_driver": False}, "unknown", "whether nodes of pool gpu have a driver for h100"),
        ("azure", {"gpu_operator": False}, "unknown", "whether nodes of pool gpu have a driver for h100"),
    ],
)
def test_it_is_said_who_brings_the_driver(cloud: str, declared: dict[str, Any], verdict: str, text: str) -> None:
    [said] = [each for each in planning.rules(planned(cloud, **declared), None) if each.id == "release.accelerator"]
    assert said.verdict == verdict
    assert said.text.startswith(text)


@pytest.mark.parametrize(
    ("cloud", "machine", "accelerator"),
    [("aws", name, "trainium") for name in ("trn1.32xlarge", "trn1n.32xlarge")]
    + [("aws", "trn2.48xlarge", "trainium2"), ("azure", "ND96isr_MI300X_v5", "mi300x")],
)
def test_a_machine_without_accelerators_of_nvidia_runs_no_pod_that_asks_for_some(
    cloud: str, machine: str, accelerator: str
) -> None:
    """On Slurm the user may install a driver."""
    plan = planned(cloud, machine)
    [said] = [each for each in planning.rules(plan, None) if each.id == "release.accelerator"]
    name = plan.pools[0].machine.name
    assert said.text == (
        f"jobs here ask Kubernetes for nvidia.com/gpu, which {name} of pool gpu does not offer: its accelerators are "
        f"{accelerator}, and no job would start there"
    )
    assert said.hint == "choose a machine with accelerators of NVIDIA, or write scheduler.kind: slurm"
    assert (said.outcome, said.severity, said.place) == ("fail", "error", "pools[0].machine")
    on_slurm = planning.rules(planned(cloud, machine, "slurm"), None)
    assert [each.verdict for each in on_slurm if each.id == "release.accelerator"] == ["unknown"]


def test_no_machine_with_accelerators_of_nvidia_is_refused_for_them() -> None:
    """Simulated accelerators are written into their node objects."""
    others = {"trainium", "trainium2", "mi300x", "mi325x", "tpu-v5e", "tpu-v5p", "tpu-v6e"}
    operator = catalog.releases()["2026.11"].addons["gpu-operator"]
    assert {*operator.accelerators} == {*catalog.accelerators()} - others
    assert not [each for each in planning.rules(planned("local"), None) if each.id == "release.accelerator"]


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("us-west-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),
        ("eu-north-1", "602401143452.dkr.ecr.eu-north-1.amazonaws.com"),
        ("me-central-1", "759879836304.dkr.ecr.me-central-1.amazonaws.com"),
        ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"),
        ("ap-east-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),
    ],
)
def test_aws_images_come_from_the_region(region: str, registry: str) -> None:
    """Nodes without egress reach no other registry; for a region with an unknown registry it is the chart's."""
    plan = planned("aws", region=region, egress="none")
    assert [each.name for each in of(plan, "efa-device-plugin").images] == [f"{registry}/eks/aws-efa-k8s-device-plugin"]
    assert of(plan, "kueue").images[0].name == "registry.k8s.io/kueue/kueue"
    [said] = [each for each in planning.rules(plan, None) if each.id == "kubernetes.images"]
    assert (said.verdict, said.place) == ("unknown", "network.egress")
    assert said.text.endswith(
        "come from public registries, and nodes reach registries of AWS in their own region alone"
    )


def test_registries_are_those_of_regions_that_there_are() -> None:
    managed = CLOUDS["aws"].managed
    assert managed
    assert {*managed.registry_of} < {*catalog.regions()["aws"].names}


def test_one_switch_leaves_all_of_them_to_somebody_else() -> None:
    plan = planned(installer="none", mpi_operator=True)
    assert set(by(plan).values()) == {"hand"}
    said = found(plan)
    assert [said[f"addons.installer {name}"].severity for name in ("kueue", "jobset")] == ["warning", "warning"]
    assert said["addons.installer kueue"].place == "scheduler.addons.installer"
    assert by(planned(mpi_operator=True))["mpi-operator"] == "hand", "nobody publishes a chart of it"
    assert "no chart of it is published: apply https://" in why(planned(mpi_operator=True), "mpi_operator")


def test_all_that_does_not_go_together_is_said_at_once() -> None:
    """Each conflict has the position and a hint."""
    plan = planned(
        "aws",
        network_operator=True,
        node_feature_discovery=False,
        jobset=False,
        trainer=True,
        mig_profile="all-1g.10gb",
    )
    wrong = {key: each for key, each in found(plan).items() if each.verdict == "fail"}
    assert {key: (each.place.removeprefix("scheduler.addons."), each.hint) for key, each in wrong.items()} == {
        "addons.needs jobset": ("jobset", "take jobset out; where you install it yourself, write installer: none"),
        "addons.needs node-feature-discovery": (
            "node_feature_discovery",
            "take node_feature_discovery out, or write network_operator: false",
        ),
        "addons.hardware network-operator": ("network_operator", "write network_operator: false"),
        "addons.excludes efa-device-plugin": (
            "efa_device_plugin",
            "write efa_device_plugin: false, or write network_operator: false",
        ),
        "addons.mig gpu-operator": (
            "mig_profile",
            "take mig_profile out, or use parts on a cluster of their own with quotas made by hand",
        ),
    }
    assert wrong["addons.excludes efa-device-plugin"].text == (
        "efa-device-plugin and network-operator exclude each other: they are for different fabrics, and a "
        "cluster has one"
    )
    assert wrong["addons.mig gpu-operator"].severity == "warning"


def test_monitoring_agent_may_block_mig() -> None:
    """The cloud's own agent is unknown to the operator."""
    what = "addons.mig node-monitoring-agent"
    said = found(planned("aws", mig_profile="all-1g.10gb"))[what]
    assert (said.verdict, said.severity, said.place) == ("unknown", "warning", "scheduler.addons.mig_profile")
    assert said.hint == "write node_monitoring_agent: false, or take mig_profile out"
    assert what not in found(planned("aws", mig_profile="all-1g.10gb", node_monitoring_agent=False))
    assert what not in found(planned("aws")) | found(planned("azure", mig_profile="all-1g.10gb"))


H100, L4, MI300X = "ND96isr_H100_v5", "g6.48xlarge", "ND96isr_MI300X_v5"
HAVING = "a100, a100-80gb, h100, h200, b200, b300, gb200, gb300"
NOBODY = "accelerators stay whole: gpu-operator, which divides them, is not part of the cluster: "
NO_HARDWARE = "no node has accelerators that it supports; those of simulated machines are written onto their nodes"


@pytest.mark.parametrize(
    ("cloud", "machine", "declared", "text", "hint"),
    [
        ("azure", H100, {"gpu_operator": False}, f"{NOBODY}declared so", "take mig_profile out, or gpu_operator"),
        ("local", "sim-h100", {}, f"{NOBODY}{NO_HARDWARE}", "take mig_profile out"),
        (
            "aws",
            L4,
            {},
            "the accelerators of pool gpu (g6) are l4, which has no MIG",
            f"take mig_profile out, or choose a machine with one of {HAVING}",
        ),
        (
            "azure",
            MI300X,
            {"gpu_operator": True},
            f"the accelerators of pool gpu ({MI300X}) are mi300x, which has no MIG",
            f"take mig_profile out, or choose a machine with one of {HAVING}",
        ),
        (
            "azure",
            H100,
            {"mig_profile": "1g.10gb"},
            "'1g.10gb' is not a MIG profile",
            "write all-disabled, or one like all-1g.10gb",
        ),
    ],
)
def test_a_profile_that_divides_nothing_is_refused_where_it_stands(
    cloud: str, machine: str, declared: dict[str, Any], text: str, hint: str
) -> None:
    """A profile `none` divides nothing either, and says so."""
    with pytest.raises(DeclarationError) as caught:
        planned(cloud, machine, **{"mig_profile": "all-1g.10gb", **declared})
    [problem] = caught.value.problems
    assert (problem.path, problem.message, problem.hint) == ("scheduler.addons.mig_profile", text, hint)
    planned(cloud, machine, **{**declared, "mig_profile": "all-disabled"})


def test_refuses_addons_that_local_cannot_run() -> None:
    said = found(planned("local", metrics_server=True))["addons.installer metrics-server"]
    place, hint = "scheduler.addons.metrics_server", "write metrics_server: false"
    assert (said.verdict, said.place, said.hint) == ("fail", place, hint)
    assert said.text.startswith("metrics-server cannot run on local: pods on this machine start from images")


def test_local_addons_need_no_installation() -> None:
    """Programs of this machine need no installation; without the switch they do not appear."""
    plan = planned("local", trainer=True, mpi_operator=True, installer="none")
    assert by(plan) == dict.fromkeys(("kueue", "jobset", "trainer", "mpi-operator"), "cloud")
    assert {each.verdict for each in found(plan).values()} == {"pass"}
    assert by(planned("local")) == dict.fromkeys(("kueue", "jobset"), "cloud")


@pytest.mark.parametrize(
    ("version", "wrong"),
    [("1.35.4", set()), ("1.36.0", {"network-operator"}), ("1.31.9", {"gpu-operator"}), ("1.37.0", None)],
)
def test_refuses_addons_for_another_kubernetes(version: str, wrong: set[str] | None) -> None:
    """The developers' versions decide; the problem is at the switch, and has the source."""
    plan = planned()
    kubernetes = tuple({**dict(plan.release.kubernetes), "kubernetes": version}.items())
    other = dataclasses.replace(plan, release=dataclasses.replace(plan.release, kubernetes=kubernetes))
    said = {each.subject: each for each in addons(other) if each.id == "addons.kubernetes"}
    assert {*said} == ({"gpu-operator", "network-operator"} if wrong is None else wrong)
    for name, each in said.items():
        row = catalog.releases()[plan.release.name].addons[name]
        assert each.verdict == "fail"
        assert each.place == f"scheduler.addons.{name.replace('-', '_')}"
        assert f"it is for {row.kubernetes_min} to {row.kubernetes_max} ({row.source}, read {row.read})" in each.text


def test_unstated_versions_are_unknown() -> None:
    """Only the cloud's own parts are known, with versions that suit its Kubernetes."""
    said = list(addons(planned("aws")))
    assert {(each.id, each.verdict) for each in said} == {("addons.kubernetes", "unknown")}
    assert [each.subject for each in said] == ["efa-device-plugin"]


@pytest.mark.parametrize(
    ("cloud", "field", "value"),
    [
        ("azure", "installer", "none"),
        ("azure", "node_feature_discovery", False),
        ("azure", "gpu_operator", False),
        ("azure", "gpu_driver", False),
        ("azure", "mig_strategy", "mixed"),
        ("azure", "mig_profile", "all-1g.10gb"),
        ("azure", "network_operator", False),
        ("aws", "efa_device_plugin", False),
        ("azure", "kueue", False),
        ("azure", "jobset", False),
        ("azure", "trainer", True),
        ("azure", "mpi_operator", True),
        ("aws", "node_monitoring_agent", False),
        ("azure", "metrics_server", False),
    ],
)
def test_each_switch_makes_another_plan(cloud: str, field: str, value: Any) -> None:
    """An explicit default changes nothing."""
    switched, usual = planned(cloud, **{field: value}), planned(cloud)
    assert switched.scheduler.addons != usual.scheduler.addons
    if field != "gpu_driver":  # a plan takes its version from the release
        assert fingerprint(switched) != fingerprint(usual)
    assert planned(cloud, kueue=True).scheduler.addons == usual.scheduler.addons


def test_slurm_has_none() -> None:
    assert planned(kind="slurm").scheduler.addons == ()
    assert list(addons(planned(kind="slurm"))) == []
    with pytest.raises(DeclarationError, match="Slurm has no add-ons"):
        planned(kind="slurm", gpu_operator=True)


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("gpu-operator", {"needs": ("kueue",)}, "kueue, which it needs, does not come before it"),
        ("kueue", {"excludes": ("jobset",)}, "jobset does not exclude it in turn"),
        ("jobset", {"version": "0.9.0"}, "0.9.0 is not 0.11.1, which clouds bring"),
    ],
)
def test_a_set_that_cannot_be_is_a_mistake_of_the_catalog(name: str, edit: dict[str, Any], said: str) -> None:
    release = catalog.releases()["2026.11"]
    row = dataclasses.replace(release.addons[name], **edit)
    broken = dataclasses.replace(release, addons=MappingProxyType({**release.addons, name: row}))
    with pytest.raises(catalog.CatalogError, match=said):
        catalog._check_addons(broken)


def of(plan: Plan, name: str) -> Any:
    return next(each for each in plan.scheduler.addons if each.name == name)
