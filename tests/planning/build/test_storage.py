"""File systems of a plan: rates for a fleet, and its losses."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import catalog
from stampworks.declaration import DeclarationError
from stampworks.plan import fingerprint
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.cost import cost

from tests.planning.clouds import LUSTRE, declared, found, gpu, on_aws, planned, refusal

BUCKET = {"name": "corpus", "kind": "s3", "mount": "/corpus"}


def test_a_bucket_holds_no_runs() -> None:
    """A bucket is refused as the first storage if another one can hold runs; otherwise a warning says so."""
    lustre = {**LUSTRE, "mbps_per_tib": 500}
    text = "runs have their folders on the first storage, and corpus is a bucket, which cannot append to files"
    assert not found(on_aws(gpu(), storage=[lustre, BUCKET]), "storage.runs")
    assert not found(on_aws(gpu()), "storage.runs")
    for storage, outcome, hint in (
        ([BUCKET, lustre], "fail", "declare scratch before it"),
        ([BUCKET], "warn", "declare a file system before it; without one `submit` refuses every run"),
    ):
        [finding] = found(on_aws(gpu(), storage=storage), "storage.runs")
        assert (finding.outcome, finding.place, finding.text, finding.hint) == (outcome, "storage[0]", text, hint)


def test_a_file_system_with_its_throughput() -> None:
    """The throughput is an expectation, from which the time to save the fleet's memory follows."""
    plan = on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500}])
    numbers = {each.name: each.value for each in plan.expectations}
    assert (numbers["scratch.write_gbs"], numbers["scratch.gpu.client_gbs"]) == (4.8, 12.5)
    assert not found(plan, "storage.zone")


@pytest.mark.parametrize(
    ("capacity", "outcome", "lost"),
    [(2400, "warn", "11.3% to 28.4%"), (9600, "unknown", "5.7% to 14.2%"), (24000, "pass", "3.6% to 9.0%")],
)
def test_loss_of_a_fleet_to_its_storage(capacity: int, outcome: str, lost: str) -> None:
    """The loss is that at the best interval between checkpoints, with published failure rates; a tenth is too much."""
    storage = {**LUSTRE, "mbps_per_tib": 500, "capacity": capacity}
    [fleet] = found(on_aws(gpu(), storage=[storage]), "storage.fleet")
    assert (fleet.outcome, fleet.place) == (outcome, "storage[0]")
    assert fleet.text.startswith("the time to save the memory of 128 accelerators to scratch: ")
    assert f"at the best interval that takes, with work done again, {lost} of the time" in fleet.text
    assert fleet.text.endswith("10% is too much")


def test_a_fleet_is_no_faster_than_its_nodes() -> None:
    """Two nodes write at 25 GB/s over TCP, however fast the storage is: 1,374 GB in 55 s."""
    storage = {**LUSTRE, "mbps_per_tib": 1000, "capacity": 96000}
    [fleet] = found(on_aws(gpu(count=2), storage=[storage]), "storage.fleet")
    assert (
        "to scratch: 54.98 s, 1374 GB written at 25 GB/s: 2 x 12.5 GB/s, throughput of a client of Amazon"
    ) in fleet.text


def test_efa_storage_on_machines_without_efa() -> None:
    """Nodes of such a pool use TCP, and where all do, the declared EFA has no effect."""
    fast = {**LUSTRE, "mbps_per_tib": 1000, "efa": True}
    assert not found(on_aws(gpu(), storage=[fast]), "storage.efa")
    for older in ("p4d", "p4de"):  # their EFA generation cannot reach a file system
        [each] = found(on_aws(gpu(machine=older), storage=[fast]), "storage.efa")
        assert (each.outcome, f"which {older} of pool gpu cannot" in each.text) == ("fail", True)
    [none] = found(on_aws(gpu(machine="trn2"), storage=[fast]), "storage.efa")
    assert (none.outcome, none.place, none.subject) == ("fail", "storage[0].efa", "scratch")
    assert none.text == "scratch is declared with EFA, which trn2 of pool gpu cannot use: throughput over TCP is lower"
    plan = on_aws(gpu(), gpu(name="cpu", machine="m7i"), storage=[fast])
    [some] = found(plan, "storage.efa")
    assert (some.outcome, "m7i of pool cpu cannot" in some.text) == ("warn", True)
    numbers = {each.name: each.value for each in plan.expectations}
    assert (numbers["scratch.gpu.client_gbs"], numbers["scratch.cpu.client_gbs"]) == (87.5, 12.5)


def test_how_many_nics_reach_a_file_system_over_efa() -> None:
    """The number follows AWS's table by machine, reduced if all nodes together exceed the file system's limit."""

    def given(*pools: dict[str, Any], **storage: Any) -> list[int]:
        fast = {**LUSTRE, "mbps_per_tib": 1000, "efa": True, **storage}
        plan = on_aws(*pools, storage=[fast], network={"cidr": "10.0.0.0/16"})
        return [group.storage_interfaces for group in plan.groups]

    assert given(gpu(count=2)) == [0, 8]
    assert given(gpu(machine="p5e", count=2)) == [0, 8]
    assert given(gpu(machine="p6-b300", count=2)) == [0, 16]
    assert given(gpu(machine="trn1", count=2)) == [0, 2]
    assert given(gpu(machine="p4d", count=2)) == [0, 0]
    assert given(gpu(machine="g6", count=2), gpu(name="cpu", machine="m7i", count=1)) == [0, 1, 0]
    assert given(gpu(count=128)) == [0, 8]
    assert given(gpu(count=129)) == [0, 7]
    assert given(gpu(count=100), gpu(name="more", machine="trn1", count=300)) == [0, 2, 2]
    assert given(gpu(count=2), efa=False) == [0, 0]
    plan = on_aws(gpu(count=129), storage=[{**LUSTRE, "mbps_per_tib": 1000, "efa": True}])
    [why] = [each.why for each in plan.reasons if each.path == "groups.gpu.storage_interfaces"]
    assert why == "1024 connections that fsx-lustre takes for 129 nodes, instead of 8 each"


def test_more_nodes_than_a_file_system_takes_over_efa() -> None:
    """A finding says so, and all nodes use TCP."""
    fast = {**LUSTRE, "mbps_per_tib": 1000, "efa": True}
    plan = on_aws(gpu(count=1025), storage=[fast], network={"cidr": "10.0.0.0/16"})
    [many] = found(plan, "storage.efa")
    assert (many.outcome, many.text) == (
        "warn",
        "scratch takes at most 1,024 nodes over EFA, and there are 1,025: all reach it over TCP",
    )
    assert [group.storage_interfaces for group in plan.groups] == [0, 0]


def test_a_fleet_of_which_nobody_can_tell() -> None:
    """Missing facts are named if the question needs them."""
    [fleet] = found(on_aws(gpu(), storage=[{"name": "data", "kind": "s3", "mount": "/data"}]), "storage.fleet")
    assert fleet.outcome == "unknown"
    assert fleet.text.endswith(
        "to data: write throughput of Amazon S3: not published apart from reads, or not known to the catalog"
    )


def test_a_file_system_that_cannot_be() -> None:
    """Each option is refused at its position, with the nearest legal value."""
    wrong = [{**LUSTRE, "mbps_per_tib": 300}, {**LUSTRE, "name": "b", "mount": "/b", "mbps_per_tib": 500}]
    wrong[1]["capacity"] = 9700
    text = refusal(storage=[*wrong, {"name": "shared", "kind": "directory", "mount": "/shared", "capacity": 5}])
    assert "storage[0].mbps_per_tib: " in text
    assert "storage[1].capacity: " in text
    assert "9600" in text
    assert "storage[2].kind: nodes on aws share no disk, on which a directory could be" in text
    assert "storage[2].capacity: a directory has no such setting: it takes space of the disk below it" in text


def test_a_file_system_of_another_cloud() -> None:
    """The file system's cloud is named; an unknown kind is refused, too."""
    text = refusal(storage=[{"name": "a", "kind": "azure-managed-lustre", "mount": "/a", "capacity": 16384}])
    assert "storage[0]" in text
    with pytest.raises(
        DeclarationError, match="no file system is called 'fsx-lustr'\n  hint: did you mean 'fsx-lustre'"
    ):
        on_aws(gpu(), storage=[{"name": "a", "kind": "fsx-lustr", "mount": "/a"}])
    with pytest.raises(DeclarationError, match="hint: did you mean 'fsx-lustre' or 'fsx-openzfs'"):
        on_aws(gpu(), storage=[{"name": "a", "kind": "fsx", "mount": "/a"}])
    with pytest.raises(DeclarationError, match="hint: take one of fsx-lustre, efs, fsx-openzfs, s3 on aws; azure-"):
        on_aws(gpu(), storage=[{"name": "a", "kind": "zzz", "mount": "/a"}])


def test_storage_apart_from_the_pools() -> None:
    """The storage is in one zone, and the pools in two."""
    pools = (gpu(), gpu(name="more", zone="us-east-1b"))
    [zone] = found(on_aws(*pools, storage=[{**LUSTRE, "mbps_per_tib": 500}]), "storage.zone")
    assert (zone.verdict, zone.severity) == ("fail", "warning")


def test_each_option_of_a_file_system_counts() -> None:
    """Siblings have the same file systems."""
    one = on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500}])
    assert fingerprint(on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 250}])) != fingerprint(one)
    assert fingerprint(on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500, "capacity": 12000}])) != fingerprint(one)


@pytest.mark.parametrize("tier", ["$(id)", "PERSISTENT_2 SSD\n", "persistent_2 ssd", "\x1b[2J", "a" * 1000])
def test_a_tier_is_one_of_its_kind(tier: str) -> None:
    """Another tier is refused, with the list of all tiers."""
    wrong = "is not a tier|FSx for Lustre has no tier 'persistent_2 ssd'"
    with pytest.raises(DeclarationError, match=rf"storage\[0\].tier: .*({wrong})") as error:
        on_aws(gpu(), storage=[{**LUSTRE, "tier": tier}])
    assert all(line.isprintable() for line in str(error.value).split("\n"))


def test_the_local_cloud_has_directories_only() -> None:
    """Its nodes share the disk of this machine."""
    with pytest.raises(DeclarationError, match="whose nodes share the disk of one machine"):
        planned(declared(catalog.machines()["sim-h100"], storage=[{"name": "a", "kind": "nfs", "mount": "/a"}]))


@pytest.mark.parametrize("kind", ["nfs", "weka", "local-nvme"])
def test_refuses_storage_that_the_cloud_cannot_create(kind: str) -> None:
    """Nodes of a cloud mount storage of the same cloud; other servers cannot be declared."""
    problem = f"storage[0].kind: {kind} cannot be made on aws yet"
    said = refusal(storage=[{"name": "data", "kind": kind, "mount": "/data"}])
    assert problem in said
    assert "hint: there are efs, fsx-lustre, fsx-openzfs and s3" in said


def test_a_checkpoint_takes_as_long_as_its_storage_lets_it() -> None:
    """The storage of checkpoints bounds their rate, and how often they are saved."""
    model = {"parameters": 70 * 10**9, "tokens": 10**12, "layers": 80, "hidden": 8192, "heads": 64, "sequence": 8192}
    model |= {"vocabulary": 128256, "kv_heads": 8, "ffn": 28672}
    storage = [{**LUSTRE, "mbps_per_tib": 500}]
    plan = on_aws(gpu(), storage=storage, training={"model": model})
    numbers = {each.name: each for each in plan.expectations}
    written = numbers["training.gpu.checkpoint_seconds_min"]
    assert written.value == pytest.approx(numbers["training.checkpoint_gb"].value / 4.8, rel=0.01)
    assert "4.8 GB/s" in written.why
    unknown = {"name": "other", "kind": "efs", "tier": "regional", "mount": "/other"}
    faster = on_aws(gpu(), storage=[unknown], training={"model": model})
    assert {each.name: each.value for each in faster.expectations}[written.name] < written.value


def test_checkpoints_are_in_no_bucket() -> None:
    """A training renames a complete checkpoint, which a bucket does not support."""
    storage = [{**LUSTRE, "mbps_per_tib": 500}, {"name": "archive", "kind": "s3", "mount": "/archive"}]

    def said(directory: str) -> list[tuple[str, str, str]]:
        plan = on_aws(gpu(), storage=storage, training={"checkpoints": {"directory": directory}})
        return [(each.outcome, each.place, each.text) for each in found(plan, "storage.checkpoints")]

    text = "checkpoints are declared in /archive/runs, and archive is a bucket, which cannot rename folders"
    assert said("/archive/runs") == [("fail", "training.checkpoints.directory", text)]
    assert said("/fsx/runs") == []
    assert not found(on_aws(gpu(), storage=storage), "storage.checkpoints")


def test_cost_of_a_file_system() -> None:
    """The cost follows the capacity if nothing else is billed; otherwise, and without a price, it is unknown."""
    cheap = {**LUSTRE, "tier": "SCRATCH_2", "capacity": 1200}
    charges = {each.what: each for each in cost(on_aws(gpu(), storage=[cheap])).charges}
    found = charges["storage scratch"]
    assert found.usd_per_hour == pytest.approx(1200 * 0.14 / 730, rel=1e-3)
    dear = cost(on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 125, "metadata_iops": 12000}])).charges
    assert [each.usd_per_hour for each in dear if each.what == "storage scratch"] == [None]


@pytest.mark.parametrize(
    ("change", "policy"),
    [
        ({"capacity": 12000}, "in place"),
        ({"capacity": 4800}, "refuse"),
        ({"tier": "PERSISTENT_1 SSD", "mbps_per_tib": 200}, "refuse"),
    ],
)
def test_effects_of_changed_file_systems(change: dict[str, Any], policy: str) -> None:
    """The vendor's rule applies: a change that would replace it, or is impossible, is refused, because it holds
    data."""
    base, head = (on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500, **more}]) for more in ({}, change))
    found = review("test", ReviewedStack("a", base), ReviewedStack("b", head))
    assert policy in {each.policy for each in found.changes}
    assert all(each.why for each in found.changes if each.policy == "refuse" and each.field.startswith("storage"))


def test_a_zone_that_is_missing_is_none() -> None:
    """The distance to the storage is then unknown."""
    pools = (gpu(), {"name": "more", "machine": "p5", "count": 2})
    [finding] = found(on_aws(*pools, storage=[{**LUSTRE, "mbps_per_tib": 500}]), "storage.zone")
    assert finding.verdict == "unknown"


def test_a_file_system_over_efa() -> None:
    """The cloud chooses its other options by default."""
    plan = on_aws(gpu(), storage=[{**LUSTRE, "mbps_per_tib": 500, "efa": True, "capacity": 19200}])
    assert {each.name for each in plan.expectations} >= {"scratch.write_gbs"}
