"""Plans for clouds: each cloud decides about its own parts, and unknown values stay unknown."""

from __future__ import annotations

import dataclasses

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, from_json, to_json
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text

from tests.planning.clouds import MACHINES, count, declared, found, gpu, on_aws, planned


def test_every_cloud_has_a_machine_for_the_controller() -> None:
    """The catalog has it."""
    assert all(choices.controller_machine in catalog.machines() for choices in CLOUDS.values())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_machine_can_be_planned(machine: catalog.Machine) -> None:
    """The plan uses all known facts, can be written and read, and marks unknown ones."""
    plan = planned(declared(machine))
    assert from_json(Plan, to_json(plan)) == plan
    [pool] = plan.pools
    nics = None if machine.nics is catalog.UNKNOWN else machine.nics
    assert (pool.count, pool.machine.name, pool.rails) == (count(machine), machine.name, nics)
    known = not isinstance(machine.nic_rate_gbps, catalog.Unknown)
    if not machine.simulated and nics:
        rails = plan.fabric.rails
        assert len(rails) == (nics if known or plan.pools[0].nodes else 0)
        assert {rail.rate_mbps for rail in rails} <= {1000 * int(str(machine.nic_rate_gbps)) if known else 0}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_cloud_that_cannot_be_stamped_says_so(cloud: str) -> None:
    """The warning comes first, before an `up` fails."""
    plan = planned(declared(next(row for row in MACHINES if row.cloud == cloud)))
    [*warned] = found(plan, "cloud.stamped")
    if cloud in catalog.MACHINES_EXIST:
        assert (warned[0].outcome, warned[0].text) == (
            "warn",
            "clusters on hosts are stamped on machines that exist, and none are listed",
        )
        return
    if CLOUDS[cloud].stamped:
        assert warned == []
        return
    assert (planning.rules(plan, None)[0], warned[0].outcome) == (warned[0], "warn")
    assert warned[0].text == f"clusters on {cloud} can be planned, estimated and reviewed, and not stamped yet"
    assert warned[0].hint == "take one of local, aws, hosts to stamp it"
    assert plan_text(plan, cost(plan), warned).startswith(f"plan only: {warned[0].text}\n\ncluster ")


def test_required_and_fixed_fields_of_a_cloud() -> None:
    """All problems are reported at once, each at its place."""
    data = {
        "version": 1,
        "name": "test",
        "cloud": "aws",
        "pools": [gpu(purchase="owned", reservation="cr-1")],
        "fabric": {
            "kind": "infiniband",
            "rail_rate_mbps": 400,
            "oversubscription": 2,
            "leaf_nodes": 4,
            "spine_leaves": 2,
        },
    }
    with pytest.raises(DeclarationError) as error:
        planned(data)
    said = {problem.path: problem.message for problem in error.value.problems}
    assert said == {
        "region": "is missing: a cluster on aws is in one region",
        "pools[0].purchase": "aws does not sell machines as owned",
        "pools[0].reservation": "pool gpu is owned, which uses no reservation",
        "fabric.kind": "the NICs of p5 speak efa, not infiniband",
        "fabric.rail_rate_mbps": "the rails of p5 have the rate of its NICs, 100 Gb/s",
        "fabric.leaf_nodes": "aws builds the fabric, so that it cannot be chosen",
        "fabric.spine_leaves": "aws builds the fabric, so that it cannot be chosen",
        "fabric.oversubscription": "aws builds the fabric, so that it cannot be chosen",
    }


@pytest.mark.parametrize("gpus", [16, 1_000, 16_000])
def test_resources_grow_with_pools(gpus: int) -> None:
    """Groups and subnets of 16 and of 16,000 GPUs are the same."""
    plan = on_aws(gpu(count=gpus // 8))
    assert (len(plan.groups), len(plan.network.subnets), len(plan.fabric.rails)) == (2, 3, 32)
    assert len(plan.pools[0].nodes) == gpus // 8


def test_unknown_facts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing facts make their consequences missing, never zero."""
    odd = dataclasses.replace(catalog.machines()["p5"], name="odd", nic_rate_gbps=catalog.UNKNOWN)
    table = {**catalog.machines(), "odd": odd}
    monkeypatch.setattr(catalog, "machines", lambda: table)
    plan = on_aws(gpu(machine="odd"))
    assert plan.fabric.rails == ()
    assert {each.name for each in plan.expectations if each.name.startswith("gpu.all")} == set()
    [finding] = found(plan, "machine.facts")
    assert "lacks facts of odd: rate of a NIC" in finding.text


@pytest.mark.parametrize(
    ("cloud", "region", "message", "hint"),
    [
        ("aws", "us-east-11", "catalog/regions.yaml has no region 'us-east-11' of aws (botocore 1.44.5, "
         "data/partitions.json, read 2026-11-22)", "did you mean 'us-east-1'?"),
        ("aws", "mars-1", "catalog/regions.yaml has no region 'mars-1' of aws (botocore 1.44.5, "
         "data/partitions.json, read 2026-11-22)", "there are af-south-1, ap-east-1, "),
        ("oracle", "us-ashborn-1", "catalog/regions.yaml has no region 'us-ashborn-1' of oracle (oci 2.189.0, "
         "regions_definitions.py, read 2026-11-22)", "did you mean 'us-ashburn-1'?"),
    ],
)  # fmt: skip
def test_a_region_is_one_of_the_cloud(cloud: str, region: str, message: str, hint: str) -> None:
    """The hint names the list of regions, because a new region may be missing in it."""
    machine = next(row for row in MACHINES if row.cloud == cloud)
    with pytest.raises(DeclarationError) as error:
        planned(declared(machine, region=region))
    [problem] = error.value.problems
    assert (problem.path, problem.message) == ("region", message)
    assert problem.hint.startswith(hint)
    assert not found(planned(declared(machine)), "placement.region")


@pytest.mark.parametrize("cloud", ["azure", "google", "coreweave"])
def test_a_region_of_a_cloud_whose_regions_nobody_lists(cloud: str) -> None:
    """The region may exist; the finding is unknown."""
    machine = next(row for row in MACHINES if row.cloud == cloud)
    [finding] = found(planned(declared(machine, region="mars-1")), "placement.region")
    text = f"whether {cloud} has a region mars-1: the catalog has no list of its regions"
    assert (finding.verdict, finding.text) == ("unknown", text)


def test_a_name_that_a_cloud_does_not_take() -> None:
    """Names on AWS begin with the cluster's name, and AWS refuses security groups with names like sg-."""
    machine = next(row for row in MACHINES if row.cloud == "aws")
    with pytest.raises(DeclarationError) as error:
        planned({**declared(machine), "name": "sg-train"})
    [problem] = error.value.problems
    assert problem.path == "name"
    assert problem.message.startswith("AWS has no security group whose name begins with sg-, and names of what is ")
    assert planned({**declared(machine), "name": "sgtrain"}).name == "sgtrain"


def test_regions_whose_services_are_called_otherwise() -> None:
    """AWS has such regions, and refuses the toolkit's resources there."""
    machine = next(row for row in MACHINES if row.cloud == "aws")
    apart = [
        region
        for region in catalog.regions()["aws"].names
        if found(planned(declared(machine, region=region)), "placement.region")
    ]
    assert {region.partition("-")[0] for region in apart} == {"cn", "eusc", "eu", "us"}
    assert {"eu-isoe-west-1", "us-isob-east-1"} <= {*apart}
    assert not {"eu-west-1", "us-east-1", "us-gov-west-1", "ca-central-1"} & {*apart}
    [finding] = found(planned(declared(machine, region="cn-north-1")), "placement.region")
    assert (finding.outcome, finding.place) == ("fail", "region")
    assert finding.text == (
        "cn-north-1 is in a part of AWS whose services have names of their own (China), and what is made here calls "
        "them as the others do: AWS refuses it there"
    )


@pytest.mark.parametrize(
    ("cloud", "machine", "region", "zone"),
    [
        ("aws", "p5", "us-east-2", "eu-west-1a"),
        ("aws", "p5", "us-east-2", "us-east-2"),
        ("aws", "p5", "us-east-2", "us-east-2A"),
        ("aws", "p5", "us-east-2", "us-east-21a"),
        ("aws", "p5", "us-east-2", "us-east-2zz"),
        ("google", "a3-megagpu-8g", "us-east4", "us-east1-a"),
        ("google", "a3-megagpu-8g", "us-east4", "us-east4"),
    ],
)
def test_a_zone_is_one_of_the_region(cloud: str, machine: str, region: str, zone: str) -> None:
    """The zone's name contains its region."""
    pool = {"name": "gpu", "machine": machine, "count": 2, "zone": zone}
    data = {"version": 1, "name": "test", "cloud": cloud, "region": region, "pools": [pool]}
    with pytest.raises(DeclarationError, match=rf"pools\[0\].zone: {zone} is no zone of {region}, where the"):
        planning.plan(load_value(data, "test"))


@pytest.mark.parametrize(
    ("cloud", "machine", "region", "zone"),
    [
        ("aws", "p5", "us-east-1", "us-east-1f"),
        ("aws", "p5", "us-east-1", "us-east-1-bos-1a"),
        ("google", "a3-megagpu-8g", "us-central1", "us-central1-b"),
        ("google", "a3-megagpu-8g", "us-central1", "us-central1-ai1a"),
    ],
)
def test_zones_that_there_may_be(cloud: str, machine: str, region: str, zone: str) -> None:
    pool = {"name": "gpu", "machine": machine, "count": 2, "zone": zone}
    assert (
        planned({"version": 1, "name": "test", "cloud": cloud, "region": region, "pools": [pool]}).pools[0].zone == zone
    )


def test_zones_of_a_wrong_region_are_not_judged() -> None:
    """Only the region is reported: the zone may be right."""
    pool = {"name": "gpu", "machine": "p5", "count": 2, "zone": "us-east-1a"}
    with pytest.raises(DeclarationError) as error:
        planned({"version": 1, "name": "test", "cloud": "aws", "region": "us-east-9", "pools": [pool]})
    assert [problem.path for problem in error.value.problems] == ["region"]


@pytest.mark.parametrize("machine", ["ct5p-hightpu-4t", "trn2", "mi300x", "p6e-gb200"])
def test_a_release_without_a_driver_says_so(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every real accelerator; with a driver the rule passes."""
    plan = planned(declared(catalog.machines()[machine]))
    [finding] = found(plan, "release.accelerator")
    name = plan.pools[0].machine.accelerator
    assert (finding.verdict, finding.place) == ("unknown", "pools[0].machine")
    assert f"release {plan.release.name} has no driver for {name}: nodes of pool " in finding.text
    row = catalog.releases()[plan.release.name]
    having = {row.name: dataclasses.replace(row, accelerators=(name,))}
    monkeypatch.setattr(catalog, "releases", lambda: having)
    assert [each.verdict for each in found(planned(declared(catalog.machines()[machine])), "release.accelerator")] == [
        "pass"
    ]


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("a3-highgpu-8g", "5 networks: every NIC is in another one"),
        ("a3-megagpu-8g", "9 networks: every NIC is in another one"),
        ("a3-ultragpu-8g", "3 networks: every NIC is in another one, and rail[0-7] share one for RDMA, in one zone"),
        ("a4-highgpu-8g", "3 networks: every NIC is in another one, and rail[0-7] share one for RDMA, in one zone"),
        ("a4x-highgpu-4g", "3 networks: every NIC is in another one, and rail[0-3] share one for RDMA, in one zone"),
    ],
)
def test_networks_of_google(machine: str, said: str) -> None:
    """NICs for RDMA share a network, in which each rail has a subnet; all others need one each."""
    plan = planned(declared(catalog.machines()[machine]))
    assert [each.why for each in plan.reasons if each.path == "network.subnets.networks"] == [said]
    rails = [subnet.name for subnet in plan.network.subnets if subnet.name.startswith("rail")]
    assert len(rails) == plan.pools[0].rails


@pytest.mark.parametrize(
    ("cloud", "scheduler", "named"),
    [
        *(("google", "slurm", True), ("google", "kubernetes", False)),
        *(("aws", "slurm", True), ("aws", "kubernetes", False), ("azure", "slurm", False), ("nebius", "slurm", True)),
    ],
)
def test_clouds_whose_nodes_have_the_names_of_the_plan(cloud: str, scheduler: str, named: bool) -> None:
    """Google and Nebius take names of single machines, and a managed Kubernetes names its own nodes."""
    machine = next(row for row in MACHINES if row.cloud == cloud)
    [pool] = planned(declared(machine, scheduler={"kind": scheduler})).pools
    assert [node.name for node in pool.nodes][:1] == ([f"gpu-{1:03}"] if named else [])


def test_networks_of_nebius() -> None:
    """Nodes and pods have addresses in subnets of ours, and each node a range for its pods."""
    machine = catalog.machines()["gpu-h100-sxm"]
    plan = planned(declared(machine, scheduler={"kind": "kubernetes"}))
    assert [subnet.name for subnet in plan.network.subnets] == ["nodes", "storage"]
    pods = plan.network.pods
    assert pods
    assert (pods.subnet, pods.node_addresses) == ("nodes", 256)  # 2 x 110 = 220, and the next power of two
    assert plan.network.subnets[0].needed == 17 * (1 + 256)
