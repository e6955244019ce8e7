"""Values of add-ons: golden for review, and checked against the charts if available."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import planning
from stampworks.declaration import load_value
from stampworks.plan import AddOn, Plan
from stampworks.schedulers import addons, kubernetes

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden-addons"
HELM = ROOT / ".venv" / "kubernetes" / "bin" / "helm"
CHARTS = "STAMPWORKS_CHARTS"
"""A folder of charts by their names, as `helm pull --untar` leaves them."""
HERE = (ROOT / ".venv" / "kubernetes" / "share" / "charts", ROOT / ".venv" / "published" / "charts")
"""Charts built for this machine, and charts in Go modules."""
ELSEWHERE = ("gpu-operator", "network-operator")
"""Charts that no package registry has at the release's versions."""
NAMELESS = {"operator.tag", "operator.nodeSelector", "image.tag", "worker.config.sources"}
"""Values that charts read although their own values do not have them: the rendered text shows that they work."""
DECLARED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "azure": ("azure", "ND96isr_H100_v5", "eastus", {"trainer": True, "mpi_operator": True}),
    "aws": ("aws", "p5", "us-east-1", {"mig_strategy": "mixed", "mig_profile": "all-1g.10gb"}),
}
LOCAL: tuple[str, str, str, dict[str, Any]] = ("local", "sim-h100", "", {})
EVERYWHERE = {"nvidia.com/gpu", "stampworks/unproven", "stampworks/proof"}


def planned(example: str, **more: Any) -> Plan:
    cloud, machine, region, declared = {**DECLARED, "local": LOCAL}[example]
    pools = [{"name": "gpu", "machine": machine, "count": 2}]
    scheduler = {"kind": "kubernetes", "addons": {**declared, **more}}
    whole = {"version": 1, "name": "test", "cloud": cloud, "pools": pools, "scheduler": scheduler}
    whole |= {"region": region} if region else {}
    return planning.plan(load_value(whole, "test"))


def charted(example: str) -> list[AddOn]:
    return [each for each in planned(example).scheduler.addons if each.chart]


CASES = [(example, each.name) for example in DECLARED for each in charted(example)]


@pytest.mark.parametrize("example", DECLARED)
def test_chart_values_match_golden_files(example: str, golden: Callable[[Path, str], None]) -> None:
    """pytest --regenerate writes it again."""
    plan = planned(example)
    told = {each.name: addons.values(plan, each) for each in plan.scheduler.addons if each.chart}
    golden(GOLDEN / f"{example}.json", json.dumps(told, indent=1) + "\n")
    beside = [made for one in plan.scheduler.addons for made in addons.objects(one)]
    golden(GOLDEN / f"{example}-objects.json", json.dumps(beside, indent=1) + "\n")


def test_nodes_say_into_which_parts_their_accelerators_are_divided() -> None:
    """The operator uses a label of each node, and leaves nodes without it alone."""
    plans = [planned(example) for example in ("aws", "azure")]
    labels = [kubernetes.pool_labels(plan, pool) for plan in plans for pool in (*plan.pools, plan.controller)]
    assert [each.get("nvidia.com/mig.config") for each in labels] == ["all-1g.10gb", None, None, None]


def test_controllers_avoid_pools() -> None:
    """Clouds that create nodes for controllers place them there. Parts that every node needs run on every node."""
    for example, there in (("aws", {"stampworks/pool": "head"}), ("azure", None)):
        plan = planned(example)
        told = {each.name: addons.values(plan, each) for each in plan.scheduler.addons if each.chart}
        parts = [told["kueue"]["controllerManager"], told["jobset"]["controller"], told["metrics-server"]]
        parts += [told["gpu-operator"]["operator"], told["node-feature-discovery"]["master"]]
        assert [each.get("nodeSelector") for each in parts] == [there] * len(parts)
        assert "nodeSelector" not in told["node-feature-discovery"]["worker"] | told["gpu-operator"]["daemonsets"]
    assert "nodeSelector" not in addons.values(planned("aws"), of(planned("aws"), "efa-device-plugin"))


def test_kueue_waits_for_no_kind_that_nobody_can_install() -> None:
    """A cloud with its own Kubernetes has only its add-ons; elsewhere Kueue has the same settings without that list."""
    always = ["batch/job", "jobset.x-k8s.io/jobset"]
    for declared, more in (({}, []), ({"mpi_operator": True}, ["kubeflow.org/mpijob"])):
        told = addons.queueing(planned("local", **declared))
        assert told["integrations"]["frameworks"] == [*always, *more]
    elsewhere = addons.queueing(planned("aws"))
    assert elsewhere["integrations"]["frameworks"][:2] == always
    assert "ray.io/rayjob" in elsewhere["integrations"]["frameworks"]
    assert {**told, "integrations": {}} == {**elsewhere, "integrations": {}}


@pytest.mark.prepared
def test_kueue_is_told_all_that_its_chart_would_tell_it() -> None:
    """Our configuration leaves nothing of the chart's own out, such as the limit of requests to the server
    at a time."""
    plan, one = planned("aws"), of(planned("aws"), "kueue")
    known = yaml.safe_load((chart(one) / "values.yaml").read_text())["managerConfig"]
    usual = yaml.safe_load(known["controllerManagerConfigYaml"])
    told = json.loads(addons.values(plan, one)["managerConfig"]["controllerManagerConfigYaml"])
    assert {**usual, "integrations": told["integrations"]}.items() <= told.items()


def test_teams_may_have_the_jobs_that_add_ons_bring() -> None:
    rules = {example: [rule["resources"] for rule in role(planned(example))["rules"]] for example in DECLARED}
    assert [kind for kind in rules["azure"] if kind not in rules["aws"]] == [
        ["trainingruntimes", "trainjobs"],
        ["mpijobs"],
    ]


@pytest.mark.parametrize(("example", "name"), CASES)
@pytest.mark.prepared
def test_no_chart_is_told_what_it_does_not_know(example: str, name: str) -> None:
    """Helm does not report a value that no template reads."""
    plan, one = planned(example), of(planned(example), name)
    known = yaml.safe_load((chart(one) / "values.yaml").read_text())
    assert set(unknown(addons.values(plan, one), known)) <= NAMELESS


@pytest.mark.parametrize(("example", "name"), CASES)
@pytest.mark.prepared
def test_a_chart_renders_with_what_it_is_told(example: str, name: str) -> None:
    """All that runs can run before nodes are proven, and from the images that the release pins."""
    plan, one = planned(example), of(planned(example), name)
    objects = rendered(plan, one)
    running = [each for each in objects if each["kind"] in ("Deployment", "DaemonSet")]
    assert running
    for each in running:
        pod = each["spec"]["template"]["spec"]
        assert {toleration.get("key") for toleration in pod["tolerations"]} >= EVERYWHERE
        apart = plan.managed and each["kind"] == "Deployment"
        assert (pod.get("nodeSelector") or {}).get("stampworks/pool", "") == ("head" if apart else "")
    text = json.dumps(objects)
    beside = json.dumps(addons.objects(one))
    pinned = [each for each in one.images if f'"{each.part}"' not in beside]
    for image in pinned:
        assert image.tag in text, image
        assert image.digest in text, image


@pytest.mark.parametrize(
    ("example", "declared", "driver", "toolkit", "mig"),
    [
        ("azure", {}, True, True, "single"),
        ("azure", {"gpu_driver": False}, False, False, "single"),
        ("aws", {}, False, False, "mixed"),
    ],
)
@pytest.mark.prepared
def test_the_gpu_operator_does_what_is_switched_on(
    example: str, declared: dict[str, Any], driver: bool, toolkit: bool, mig: str
) -> None:
    plan = planned(example, **declared)
    policy = next(each for each in rendered(plan, of(plan, "gpu-operator")) if each["kind"] == "ClusterPolicy")["spec"]
    assert (policy["driver"]["enabled"], policy["toolkit"]["enabled"]) == (driver, toolkit)
    assert policy["driver"]["version"] == (of(plan, "gpu-operator").driver or policy["driver"]["version"])
    assert policy["devicePlugin"]["enabled"] is policy["dcgmExporter"]["enabled"] is True
    assert policy["mig"]["strategy"] == mig
    assert policy["cdi"]["enabled"] is True
    assert policy["toolkit"]["env"][0]["value"] == "false", "what an image says of accelerators is not believed"
    names = {each["metadata"]["name"] for each in rendered(plan, of(plan, "gpu-operator"))}
    assert not [name for name in names if "node-feature-discovery" in name], "there is one already"


@pytest.mark.parametrize("example", DECLARED)
def test_a_pod_has_no_accelerators_but_those_that_it_asks_for(example: str) -> None:
    """Variables of the pod or its image are not trusted; requested accelerators are passed differently. If the cluster
    does not install that, other plugins are left alone."""
    plan = planned(example)
    told = addons.values(plan, of(plan, "gpu-operator"))
    believed = {each["name"]: each["value"] for each in told["toolkit"]["env"]}
    assert believed == {"ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED": "false"}
    assert told["cdi"]["enabled"] is addons.named_to_runtime(plan) is True
    assert not addons.named_to_runtime(planned(example, gpu_operator=False, mig_profile="all-disabled"))


def role(plan: Plan) -> dict[str, Any]:
    return next(each for each in kubernetes.objects(plan) if each["kind"] == "Role")


def of(plan: Plan, name: str) -> AddOn:
    return next(each for each in plan.scheduler.addons if each.name == name)


def chart(one: AddOn) -> Path:
    """Return the folder of a chart on this machine; the project contains no charts."""
    if not HELM.exists():
        pytest.skip("there is no Helm here: python3 -m tools.prepare --kubernetes")
    folders = (*HERE, Path(os.environ.get(CHARTS, "/nowhere")))
    found = next((folder / one.chart for folder in folders if (folder / one.chart).is_dir()), None)
    if found is None:
        if one.name not in ELSEWHERE:
            pytest.fail(f"the chart {one.chart} is missing: python3 -m tools.prepare --kubernetes --training")
        where = f"{addons.chart(one)[1] or one.repository}, {one.chart} {one.version}"
        pytest.skip(f"nobody has this chart here: put it from {where} into a folder and name that in {CHARTS}")
    return found


def rendered(plan: Plan, one: AddOn) -> list[dict[str, Any]]:
    version = dict(plan.release.kubernetes)["kubernetes"]
    words = ["template", one.name, str(chart(one)), "--namespace", one.namespace, "--kube-version", version]
    done = subprocess.run(
        [str(HELM), *words, "--include-crds", "--values", "-"],
        input=json.dumps(addons.values(plan, one)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


def unknown(told: dict[str, Any], known: Any, path: str = "") -> Iterator[str]:
    """Yield values that a chart does not have; below an empty mapping anything may be."""
    for name, value in told.items():
        here = f"{path}.{name}".lstrip(".")
        if not isinstance(known, dict) or name not in known:
            yield here
        elif isinstance(value, dict) and known[name] != {}:
            yield from unknown(value, known[name], here)
