"""Objects of a plan for Kubernetes: quotas that add up, queues, teams, and no object for a node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_stack, load_value
from stampworks.plan import ACCELERATOR, Driven, Plan
from stampworks.schedulers import kubernetes

STACKS = Path(__file__).resolve().parents[2] / "stacks"
GOLDEN = Path(__file__).parent / "golden-kubernetes"


def planned(count: int = 10, **scheduler: Any) -> Plan:
    pools = [
        {"name": "gpu", "machine": "sim-h100", "count": count},
        {"name": "small", "machine": "sim-a100-small", "count": 3},
        {"name": "many", "machine": "sim-h100", "count": 7, "scheduling_only": True},
    ]
    declared = {"version": 1, "name": "test", "cloud": "local", "pools": pools}
    return planning.plan(load_value({**declared, "scheduler": {"kind": "kubernetes", **scheduler}}, "test"))


def of_kind(plan: Plan, kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in kubernetes.objects(plan) if one["kind"] == kind}


def flavored(plan: Plan, pool: str) -> dict[str, Any]:
    """The flavor of a pool."""
    found: dict[str, Any] = of_kind(plan, "ResourceFlavor")[kubernetes.flavors(plan)[pool]]["spec"]
    return found


def quota(groups: list[dict[str, Any]], flavor: str, resource: str) -> dict[str, Any]:
    flavors = {one["name"]: one["resources"] for group in groups for one in group["flavors"]}
    return next(one for one in flavors[flavor] if one["name"] == resource)


def test_objects_of_the_demo_are_what_was_reviewed(golden: Callable[[Path, str], None]) -> None:
    """pytest --regenerate writes them again."""
    plan = planning.plan(load_stack("local-k8s", STACKS))
    golden(GOLDEN / "local-k8s.json", json.dumps(kubernetes.objects(plan), indent=1) + "\n")


@pytest.mark.parametrize("shares", [(1,), (1, 1, 1), (3, 1), (7, 5, 3, 2), (1000, 1)])
def test_every_node_is_somebodys_own(shares: tuple[int, ...]) -> None:
    """Whole nodes, and as near to the shares as whole nodes are."""
    plan = planned(accounts=[{"name": f"team{index}", "share": share} for index, share in enumerate(shares)])
    for pool in kubernetes.pools(plan):
        own = [kubernetes.shares(plan)[f"team{index}"][pool.name] for index in range(len(shares))]
        assert sum(own) == pool.count
        assert all(abs(nodes - pool.count * share / sum(shares)) < 1 for nodes, share in zip(own, shares, strict=True))


def test_tie_for_a_node_goes_to_the_team_without() -> None:
    plan = planned(2, accounts=[{"name": "a", "share": 3}, {"name": "b", "share": 1}])
    assert [kubernetes.shares(plan)[name]["gpu"] for name in "ab"] == [1, 1]


def test_quotas_are_the_team_s_and_its_queues_borrow_from_it() -> None:
    plan = planned(accounts=[{"name": "research", "share": 4}, {"name": "product", "share": 1}])
    cohorts = of_kind(plan, "Cohort")
    own = cohorts["test-research"]["spec"]
    assert own["parentName"] == "test"
    gpu, small, _ = kubernetes.flavors(plan).values()
    assert quota(own["resourceGroups"], gpu, "nvidia.com/gpu") == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "64",
    }
    assert quota(own["resourceGroups"], small, "cpu")["nominalQuota"] == "32"
    queue = of_kind(plan, "ClusterQueue")["test-product-main"]["spec"]
    assert queue["cohortName"] == "test-product"
    assert quota(queue["resourceGroups"], gpu, "nvidia.com/gpu")["nominalQuota"] == "0"
    assert [one["name"] for one in queue["resourceGroups"][0]["flavors"]] == [gpu, small]


def test_a_limit_is_what_may_be_borrowed_on_top() -> None:
    """If the limit is below the share, the team gets no more than its limit."""
    accounts = [{"name": "a", "share": 4, "accelerators_max": 72}, {"name": "b", "share": 1, "accelerators_max": 8}]
    plan = planned(accounts=accounts)
    cohorts, flavor = of_kind(plan, "Cohort"), kubernetes.flavors(plan)["gpu"]
    found = [quota(cohorts[f"test-{name}"]["spec"]["resourceGroups"], flavor, "nvidia.com/gpu") for name in "ab"]
    assert [(one["nominalQuota"], one["borrowingLimit"]) for one in found] == [("64", "8"), ("8", "0")]


def test_accelerators_beyond_limits_are_shared() -> None:
    """Every accelerator is in a quota."""
    accounts = [{"name": "a", "share": 4, "accelerators_max": 24}, {"name": "b", "share": 1}]
    plan = planned(accounts=accounts)
    cohorts = of_kind(plan, "Cohort")
    for pool in kubernetes.pools(plan):
        flavor = kubernetes.flavors(plan)[pool.name]
        found = [
            int(quota(cohort["spec"]["resourceGroups"], flavor, ACCELERATOR)["nominalQuota"])
            for cohort in cohorts.values()
            if flavor in str(cohort)
        ]
        assert sum(found) == pool.count * pool.machine.accelerators
    assert "test" not in of_kind(planned(), "Cohort")


def test_quota_of_a_team_matches_its_nodes() -> None:
    """The number is that of its nodes, up to its limit: views need not count again."""
    accounts = [{"name": "a", "share": 4, "accelerators_max": 24}, {"name": "b", "share": 1}]
    plan = planned(accounts=accounts)
    for team in kubernetes.teams(plan):
        groups = of_kind(plan, "Cohort")[f"test-{team.name}"]["spec"]["resourceGroups"]
        quotas = [quota(groups, flavor, ACCELERATOR) for flavor in kubernetes.flavors(plan).values()]
        assert kubernetes.own_accelerators(plan, team) == sum(int(each["nominalQuota"]) for each in quotas)


def test_queues_with_the_same_pools_are_one_to_kueue() -> None:
    queues = [
        {"name": "main", "pools": ["gpu", "small"], "default": True},
        {"name": "other", "pools": ["small", "gpu"]},
        {"name": "little", "pools": ["small"]},
        {"name": "big", "pools": ["many"]},
    ]
    plan = planned(queues=queues)
    assert set(of_kind(plan, "ClusterQueue")) == {"test-jobs-main", "test-jobs-little", "test-jobs-big"}
    leads = {name: one["spec"]["clusterQueue"] for name, one in of_kind(plan, "LocalQueue").items()}
    assert leads == {
        "main": "test-jobs-main",
        "default": "test-jobs-main",
        "other": "test-jobs-main",
        "little": "test-jobs-little",
        "big": "test-jobs-big",
    }


def levels_of(plan: Plan, pool: str) -> list[str]:
    """Return the labels by which the nodes of a pool are selected."""
    levels = of_kind(plan, "Topology")[flavored(plan, pool)["topologyName"]]["spec"]["levels"]
    return [each["nodeLabel"] for each in levels]


def test_only_a_pool_whose_nodes_have_a_place_goes_by_the_fabric() -> None:
    """Places on Azure are unknown, so that its nodes have no levels."""
    plan = on("azure", "ND96isr_H100_v5", "eastus")
    assert (levels_of(plan, "gpu"), kubernetes.level_labels(plan)) == (["kubernetes.io/hostname"], ())
    assert levels_of(planned(), "many") == ["topology.stampworks/leaf", "kubernetes.io/hostname"]


def test_every_flavor_of_a_queue_has_a_topology_or_none_has() -> None:
    """If a flavor of a queue has a topology, Kueue gives a job without a topology request only flavors without one:
    accelerators beside a pool without a fabric would be out of reach."""
    plan = on("aws", "p5.48xlarge", "us-east-1", {"name": "small", "machine": "m7i.2xlarge", "count": 2})
    [queue] = of_kind(plan, "ClusterQueue").values()
    flavors = [each["name"] for each in queue["spec"]["resourceGroups"][0]["flavors"]]
    named = [of_kind(plan, "ResourceFlavor")[name]["spec"].get("topologyName") for name in flavors]
    assert len(named) == 2
    assert all(named)


def test_levels_are_the_cloud_s_own_labels_where_its_kubernetes_has_some() -> None:
    """EKS labels nodes with the layers of AWS's network; pods of a pool without a fabric run anywhere."""
    plan = on("aws", "p5.48xlarge", "us-east-1", {"name": "small", "machine": "m7i.2xlarge", "count": 2})
    layers = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)]
    assert levels_of(plan, "gpu") == [*layers, "kubernetes.io/hostname"]
    assert kubernetes.level_labels(plan) == tuple(layers)
    assert levels_of(plan, "small") == ["kubernetes.io/hostname"]
    flat = on("aws", "p5.48xlarge", "us-east-1", topology="flat")
    assert (levels_of(flat, "gpu"), kubernetes.level_labels(flat)) == (["kubernetes.io/hostname"], ())


def test_no_directory_of_a_node_is_promised_where_no_playbook_makes_nodes() -> None:
    """A pod would wait for it for ever."""
    assert of_kind(planned(), "PersistentVolume")
    assert not of_kind(on("aws", "p5.48xlarge", "us-east-1"), "PersistentVolume")


def test_a_volume_that_leads_elsewhere_is_another_one() -> None:
    """A volume's source cannot be changed, and a claim names its volume."""
    plan = planned()
    [team] = kubernetes.teams(plan)
    (one, claim), (other, _) = (
        kubernetes.driven(plan, team, "data", Driven("fsx.csi.aws.com", handle)) for handle in ("fs-1", "fs-2")
    )
    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert claim["spec"]["volumeName"] == one["metadata"]["name"]
    assert one["spec"]["claimRef"] == {key: claim["metadata"][key] for key in ("namespace", "name")}
    assert one["spec"]["csi"] == {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-1"}


def on(cloud: str, machine: str, region: str, *more: dict[str, Any], **scheduler: Any) -> Plan:
    pools = [{"name": "gpu", "machine": machine, "count": 4}, *more]
    declared = {"version": 1, "name": "test", "cloud": cloud, "region": region, "pools": pools}
    return planning.plan(load_value({**declared, "scheduler": {"kind": "kubernetes", **scheduler}}, "test"))


def test_how_many_objects_there_are_does_not_depend_on_how_many_nodes() -> None:
    assert len(kubernetes.objects(planned(10))) == len(kubernetes.objects(planned(1000)))


def test_a_processor_is_to_kubernetes_what_runs_one_thread() -> None:
    """Otherwise a gang that requests most of a node would be refused, or wait for ever."""
    [pool] = planning.plan(load_stack("aws-p5en-eks", STACKS)).pools
    assert (pool.machine.cores, pool.machine.threads) == (96, 2)
    assert kubernetes.capacity(pool)["cpu"] == "192"


def test_every_node_has_its_pool_and_its_place() -> None:
    labels = kubernetes.node_labels(planned())
    assert len(labels) == 20
    assert labels["many-007"] == {
        "kubernetes.io/hostname": "many-007",
        "stampworks/pool": "many",
        "topology.stampworks/leaf": "leaf3-4",
    }
