"""Problems of valid declarations that cannot be built: place, fault, reason, remedy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from types import MappingProxyType

import pytest
from stampworks import catalog, planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.declaration.values import machine_hint
from stampworks.plan import Plan
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text

PlanText = Callable[[str], Plan]

HEAD = """\
version: 1
name: test
cloud: local
"""


def refusal(plan_text_of: PlanText, text: str) -> str:
    with pytest.raises(DeclarationError) as error:
        plan_text_of(HEAD + text)
    return str(error.value)


def test_unknown_machine(plan_text_of: PlanText) -> None:
    """The nearest name of the catalog is offered."""
    assert refusal(plan_text_of, "pools:\n  - {name: gpu, machine: sim-h10, count: 4}\n") == (
        "cluster.yaml:5:26: pools[0].machine: no machine is called 'sim-h10'\n"
        "      - {name: gpu, machine: sim-h10, count: 4}\n"
        "                             ^\n"
        "  hint: did you mean 'sim-h100'?\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_another_name_of_a_machine(plan_text_of: PlanText, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clouds have names of their own; a plan has the catalog's."""
    row = dataclasses.replace(catalog.machines()["sim-h100"], aliases=("sim.8xlarge",))
    monkeypatch.setattr(catalog, "machine_names", lambda: {"sim-h100": row, "sim.8xlarge": row})
    plan = plan_text_of(HEAD + "pools:\n  - {name: gpu, machine: sim.8xlarge, count: 4}\n")
    assert plan.pools[0].machine.name == "sim-h100"


@pytest.mark.parametrize(
    ("name", "cloud", "hint"),
    [
        ("sim-h10", "", "did you mean 'sim-h100'?"),
        ("ours-with-h200", "", "h200 is in p5e (aws), ND96isr_H200_v5 (azure), a3-ultragpu-8g (google), "
         "BM.GPU.H200.8 (oracle) and 9 more"),
        ("p55", "", "did you mean 'p5'? h100 is in ND96isr_H100_v5 (azure), a3-highgpu-8g (google), "
         "BM.GPU.H100.8 (oracle), gd-8xh100ib-i128 (coreweave) and 10 more"),
        ("h100", "aws", "h100 is in p5 (aws), p5-4xlarge (aws), ND96isr_H100_v5 (azure), a3-highgpu-8g (google) "
         "and 12 more"),
        ("8xH100", "oracle", "h100 is in BM.GPU.H100.8 (oracle), p5 (aws), ND96isr_H100_v5 (azure), "
         "a3-highgpu-8g (google) and 11 more"),
        ("ours-with-h200", "aws", "h200 is in p5e (aws), p5en (aws), ND96isr_H200_v5 (azure), "
         "a3-ultragpu-8g (google) and 10 more"),
        ("b200", "aws", "did you mean 'p6-b200'? b200 is in a4-highgpu-8g (google), BM.GPU.B200.8 (oracle), "
         "b200-8x (coreweave), gpu-b200-sxm (nebius) and 5 more"),
        ("p55", "azure", "did you mean 'p5' of aws? h100 is in ND96isr_H100_v5 (azure), a3-highgpu-8g (google), "
         "BM.GPU.H100.8 (oracle), gd-8xh100ib-i128 (coreweave) and 10 more"),
        ("p5", "azure", "h100 is in ND96isr_H100_v5 (azure), a3-highgpu-8g (google), BM.GPU.H100.8 (oracle), "
         "gd-8xh100ib-i128 (coreweave) and 10 more"),
        ("g6-48xlarge", "aws", "did you mean 'g6'? l4 is in g6-8xlarge (aws)"),
        ("p5-48xlarge", "aws", "did you mean 'p5'? h100 is in p5-4xlarge (aws), ND96isr_H100_v5 (azure), "
         "a3-highgpu-8g (google), BM.GPU.H100.8 (oracle) and 11 more"),
        ("P5.4xlage", "aws", "did you mean 'p5-4xlarge'? h100 is in p5 (aws), ND96isr_H100_v5 (azure), "
         "a3-highgpu-8g (google), BM.GPU.H100.8 (oracle) and 11 more"),
        ("g5.xlarge", "aws", "on aws there are g6, g6-8xlarge, g6e, "),
        ("gb300", "runpod", "on runpod there are runpod-b200, runpod-h100-sxm and runpod-h200-sxm; gb300 is in "
         "ND128isr_GB300_v6 (azure), BM.GPU.GB300.4 (oracle) and gb300-4x (coreweave)"),
        ("nope", "", "there are 3 of local, "),
        ("quantum", "runpod", "on runpod there are runpod-b200, runpod-h100-sxm and runpod-h200-sxm"),
        ("m7i", "runpod", "on runpod there are runpod-b200, runpod-h100-sxm and runpod-h200-sxm"),
    ],
)  # fmt: skip
def test_suggestions_for_an_unknown_machine(name: str, cloud: str, hint: str) -> None:
    """Near names, and the same accelerator, on the cluster's cloud first and then elsewhere."""
    found = machine_hint(name, cloud)
    assert found.startswith(hint) if hint.endswith(", ") else found == hint


def test_an_unknown_machine_on_an_unknown_cloud() -> None:
    """Both are reported, each with its hint."""
    data = {"version": 1, "name": "test", "cloud": "awz", "pools": [{"name": "a", "machine": "p55"}]}
    with pytest.raises(DeclarationError) as error:
        planning.plan(load_value(data, "x"))
    hints = {problem.path: problem.hint for problem in error.value.problems}
    assert hints["cloud"] == "did you mean 'aws'?"
    assert hints["pools[0].machine"].startswith("did you mean 'p5'? h100 is in ")


def test_unknown_machine_that_resembles_none(plan_text_of: PlanText) -> None:
    """The machines of its cloud are listed."""
    text = refusal(plan_text_of, "pools:\n  - {name: gpu, machine: xyz, count: 4}\n")
    assert text.startswith("cluster.yaml:5:26: pools[0].machine: no machine is called 'xyz'\n")
    assert "\n  hint: on local there are sim-a100-small, sim-cpu and sim-h100\n" in text


def test_a_machine_of_another_cloud(plan_text_of: PlanText) -> None:
    """The catalog knows it, and no cluster of it can be stamped here."""
    pools = "pools:\n  - {name: gpu, machine: p5, count: 4}\n  - {name: prep, machine: sim-cpu, count: 1}\n"
    assert refusal(plan_text_of, pools) == (
        "cluster.yaml:5:26: pools[0].machine: p5 is a machine of aws, and the cluster is on local\n"
        "      - {name: gpu, machine: p5, count: 4}\n"
        "                             ^\n"
        "  hint: h100 is in sim-h100 (local), ND96isr_H100_v5 (azure), a3-highgpu-8g (google), BM.GPU.H100.8 "
        "(oracle) and 11 more\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


@pytest.mark.parametrize("name", [row.name for row in catalog.machines().values() if row.cloud != "local"])
def test_no_machine_of_another_cloud_can_be_declared(name: str, plan_text_of: PlanText) -> None:
    """All machines of other clouds are refused."""
    text = refusal(plan_text_of, f"pools:\n  - {{name: gpu, machine: {name}, count: 1}}\n")
    assert f"pools[0].machine: {name} is a machine of " in text


def test_unknown_release(plan_text_of: PlanText) -> None:
    """A release is found by the catalog's name only."""
    assert refusal(plan_text_of, 'release: "2026.13"\npools:\n  - {name: gpu, machine: sim-h100, count: 4}\n') == (
        "cluster.yaml:4:10: release: no release is called '2026.13'\n"
        '    release: "2026.13"\n'
        "             ^\n"
        "  hint: did you mean '2026.12'?\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_address_range_too_small(plan_text_of: PlanText) -> None:
    """The arithmetic is shown, and the smallest range that would do."""
    text = "network: {cidr: 10.77.0.0/24}\npools:\n  - {name: gpu, machine: sim-h100, count: 5}\n"
    assert refusal(plan_text_of, text) == (
        "cluster.yaml:4:17: network.cidr: 10.77.0.0/24 is too small: a slot of it has 4 addresses, and pool gpu needs "
        "5\n"
        "    network: {cidr: 10.77.0.0/24}\n"
        "                    ^\n"
        "  hint: the smallest range that suffices is a /23, for example 10.77.0.0/23\n"
        "        256 addresses / 4 networks (management, rail0, rail1, 1 spare) / 16 slots (the head, then each "
        "pool) = 4 addresses a slot\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_address_range_too_small_for_everybody(plan_text_of: PlanText) -> None:
    """All that do not fit are named, the head too, and the advice is a private range."""
    text = (
        "network: {cidr: 192.168.8.0/27}\n"
        "pools:\n"
        "  - {name: gpu, machine: sim-h100, count: 1024}\n"
        "  - {name: prep, machine: sim-cpu, count: 2}\n"
    )
    assert refusal(plan_text_of, text).splitlines()[:5] == [
        "cluster.yaml:4:17: network.cidr: 192.168.8.0/27 is too small: a slot of it has 0.5 addresses, and the head "
        "with the gateway needs 2, pool gpu needs 1024, pool prep needs 2",
        "    network: {cidr: 192.168.8.0/27}",
        "                    ^",
        "  hint: the smallest range that suffices is a /16, for example 192.168.0.0/16",
        "        32 addresses / 4 networks (management, rail0, rail1, 1 spare) / 16 slots (the head, then each pool) = "
        "0.5 addresses a slot",
    ]


def test_a_larger_range_around_a_small_private_one_is_private_too(plan_text_of: PlanText) -> None:
    """Advice that would be refused is no advice."""
    pools = [f"  - {{name: pool{number}, machine: sim-h100, count: 1}}\n" for number in range(14)]
    text = "network: {cidr: 192.168.8.0/24}\npools:\n" + "".join(pools)
    text += "  - {name: last, machine: sim-h100, count: 1023}\n"
    assert "  hint: the smallest range that suffices is a /15, for example 10.76.0.0/15\n" in refusal(
        plan_text_of, text
    )


def test_too_many_pools(plan_text_of: PlanText) -> None:
    """Fifteen pools have a slot each."""
    pools = [f"  - {{name: pool{number}, machine: sim-cpu, count: 1}}\n" for number in range(16)]
    assert refusal(plan_text_of, "pools:\n" + "".join(pools)) == (
        "cluster.yaml:20:5: pools[15]: a cluster has at most 15 pools: a network has 16 slots, the head takes one, "
        "each pool one\n"
        "      - {name: pool15, machine: sim-cpu, count: 1}\n"
        "        ^\n"
        "  hint: put nodes of one machine into one pool, or declare a second cluster\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_blocks_that_are_not_full(plan_text_of: PlanText) -> None:
    """slurmctld would die of a block smaller than the base block, so the plan never gets there."""
    text = (
        "pools:\n  - {name: gpu, machine: sim-h100, count: 7}\nfabric: {leaf_nodes: 4}\nscheduler: {topology: block}\n"
    )
    assert refusal(plan_text_of, text) == (
        "cluster.yaml:5:43: pools[0].count: with topology: block every leaf is a block of 4 nodes; 7 nodes fill 1 and "
        "leave 3 over, and Slurm does not start with a smaller block\n"
        "      - {name: gpu, machine: sim-h100, count: 7}\n"
        "                                              ^\n"
        "  hint: write count: 4 or 8, a fabric.leaf_nodes that divides 7, or scheduler.topology: tree\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_a_pool_smaller_than_a_block(plan_text_of: PlanText) -> None:
    """The hint never suggests a count of zero."""
    text = (
        "pools:\n  - {name: gpu, machine: sim-h100, count: 3}\nfabric: {leaf_nodes: 4}\nscheduler: {topology: block}\n"
    )
    assert "  hint: write count: 4, a fabric.leaf_nodes that divides 3, or" in refusal(plan_text_of, text)


def test_blocks_of_nodes_without_rails(plan_text_of: PlanText) -> None:
    """Nodes that hang on no leaf belong to no block, and Slurm would give them no jobs."""
    text = (
        "pools:\n  - {name: gpu, machine: sim-h100, count: 4}\n  - {name: prep, machine: sim-cpu, count: 2}\n"
        "scheduler: {topology: block}\n"
    )
    assert refusal(plan_text_of, text) == (
        "cluster.yaml:6:27: pools[1].machine: with topology: block every node belongs to a block, which is a leaf, and "
        "sim-cpu of pool prep has no NIC on the fabric\n"
        "      - {name: prep, machine: sim-cpu, count: 2}\n"
        "                              ^\n"
        "  hint: write scheduler.topology: tree, or choose a machine with NICs\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_accelerators_that_no_rail_connects(plan_text_of: PlanText, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several nodes with accelerators and without a NIC would be a cluster that cannot train."""
    lonely = dataclasses.replace(catalog.machines()["sim-h100"], name="lonely", nics=0)
    machines = MappingProxyType({**catalog.machines(), "lonely": lonely})
    monkeypatch.setattr(catalog, "machines", lambda: machines)
    assert refusal(plan_text_of, "pools:\n  - {name: gpu, machine: lonely, count: 4}\n") == (
        "cluster.yaml:5:26: pools[0].machine: lonely has 8 accelerators and no NIC on the fabric: the 4 nodes of pool "
        "gpu cannot train together\n"
        "      - {name: gpu, machine: lonely, count: 4}\n"
        "                             ^\n"
        "  hint: choose a machine with NICs, or make it a pool of one node\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )
    assert plan_text_of(HEAD + "pools:\n  - {name: gpu, machine: lonely, count: 1}\n").pools[0].count == 1


def test_a_fact_that_the_catalog_does_not_know(plan_text_of: PlanText, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value is planned and shown as unknown, never as 0."""
    odd = dataclasses.replace(catalog.machines()["sim-h100"], name="odd", memory_mib=catalog.UNKNOWN)
    machines = MappingProxyType({**catalog.machines(), "odd": odd})
    monkeypatch.setattr(catalog, "machines", lambda: machines)
    plan = plan_text_of(HEAD + "pools:\n  - {name: gpu, machine: odd, count: 4}\n")
    assert plan.pools[0].machine.memory_mib is None
    assert re.search(r"gpu +gpu-\[001-004\] +odd .* unknown ", plan_text(plan, cost(plan), ()))


def test_all_problems_come_out_together(plan_text_of: PlanText) -> None:
    """Problems are in the order of the file, each as if the earlier ones were solved."""
    text = (
        "network: {cidr: 10.77.0.0/26}\n"
        "pools:\n"
        "  - {name: gpu, machine: sim-h100, count: 4}\n"
        "  - {name: more, machine: sim-h100, count: 3}\n"
        "fabric: {kind: roce}\nscheduler: {topology: block}\n"
    )
    assert [line for line in refusal(plan_text_of, text).splitlines() if "cluster.yaml" in line] == [
        "cluster.yaml:4:17: network.cidr: 10.77.0.0/26 is too small: a slot of it has 1 address, and the head with the "
        "gateway needs 2, pool gpu needs 4, pool more needs 3",
        "cluster.yaml:7:44: pools[1].count: with topology: block every leaf is a block of 2 nodes; 3 nodes fill 1 and "
        "leave 1 over, and Slurm does not start with a smaller block",
        "cluster.yaml:8:16: fabric.kind: the NICs of sim-h100 speak simulated, not roce",
        "3 problems in cluster.yaml: nothing was changed.",
    ]


def test_a_default_that_does_not_fit_points_at_what_is_around_it(plan_text_of: PlanText) -> None:
    """A default has no line, so that its parent is named."""
    pools = [f"  - {{name: pool{number}, machine: sim-h100, count: 1}}\n" for number in range(14)]
    text = refusal(plan_text_of, "pools:\n" + "".join(pools) + "  - {name: last, machine: sim-h100, count: 1024}\n")
    assert text.startswith(
        "cluster.yaml:1:1: network.cidr: 10.77.0.0/16 is too small: a slot of it has 1024 addresses, and pool last "
        "needs 1024 (the last slot has 2 less)\n"
    )


def test_a_layout_that_no_number_of_nodes_can_have(plan_text_of: PlanText) -> None:
    """The arithmetic is reported at the degree."""
    text = "pools:\n  - {name: gpu, machine: sim-h100, count: 4}\ntraining: {layout: tp, tensor_parallel: 8}\n"
    assert refusal(plan_text_of, text) == (
        "cluster.yaml:6:41: training.tensor_parallel: pool gpu: 4 nodes x 1 rank = 4 ranks; in groups of "
        "tensor_parallel 4 / 8 = 0.5, which is not whole\n"
        "    training: {layout: tp, tensor_parallel: 8}\n"
        "                                            ^\n"
        "  hint: write a tensor_parallel that divides 4, or another layout\n"
        "\n"
        "1 problem in cluster.yaml: nothing was changed."
    )


def test_hsdp_with_one_rank_a_node(plan_text_of: PlanText) -> None:
    """A node with one rank cannot split a model."""
    pools = "pools:\n  - {name: gpu, machine: sim-h100, count: 4}\n"
    assert refusal(plan_text_of, pools + "training: {layout: hsdp}\n").splitlines()[::3] == [
        "cluster.yaml:6:20: training.layout: pool gpu: hsdp splits a model within a node, and each has 1 rank",
        "  hint: write layout: fsdp, or ranks: 2 or more",
    ]
    assert plan_text_of(HEAD + pools + "training: {layout: hsdp, ranks: 2}\n").training.ranks == (("gpu", 2),)
