"""The plan as text. tests/planning/golden has the text of the stacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import load_file, load_value
from stampworks.plan import Plan, Reason
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text


def plan_of(**fields: Any) -> Plan:
    return planning.plan(load_value({"version": 1, "name": "test", "cloud": "local", **fields}, "test"))


def aws() -> Plan:
    return planning.plan(load_file(DECLARED / "aws.yaml"))


DECLARED = Path(__file__).parent / "golden"
GPU = {"name": "gpu", "machine": "sim-h100", "count": 4}


def text_of(plan: Plan, findings: Sequence[planning.Finding], width: int = 100) -> str:
    return plan_text(plan, cost(plan), findings, width=width)


def section(text: str, title: str) -> list[str]:
    """The lines of a section without its title."""
    (found,) = [block for block in text.split("\n\n") if block.startswith(title)]
    return found.strip("\n").splitlines()[1:]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    """The test includes a cluster with two pools and all declarable fields."""
    pools = [GPU | {"count": 1024}, {"name": "prep", "machine": "sim-cpu", "count": 3}]
    plan = plan_of(pools=pools, fabric={"leaf_nodes": 32, "oversubscription": 4})
    text = text_of(plan, planning.rules(plan, None), width)
    assert [line for line in text.splitlines() if len(line) > width] == []


def test_thousands_of_nodes_fit_a_screen() -> None:
    """Equal leaves share a line."""
    plan = plan_of(pools=[GPU | {"count": 1023}], fabric={"leaf_nodes": 2, "rail_rate_mbps": 400})
    text = text_of(plan, ())
    assert len(text.splitlines()) < 70
    assert section(text, "Leaves and trunks") == [
        "  leaf           trunk of each rail  nodes",
        "  leaf1-[1-511]  rail[0-1] 800 Mb/s  gpu-[001-1022], 2 a leaf",
        "  leaf1-512      rail[0-1] 800 Mb/s  gpu-1023",
    ]


def test_leaves_are_shown_with_their_spines() -> None:
    """Leaves of the same spine are equal."""
    plan = plan_of(pools=[GPU | {"count": 64}], fabric={"leaf_nodes": 2, "spine_leaves": 16, "rail_rate_mbps": 400})
    assert section(text_of(plan, ()), "Leaves and trunks") == [
        "  leaf           trunk of each rail              nodes",
        "  leaf1-[1-16]   rail[0-1] 800 Mb/s to spine1-1  gpu-[001-032], 2 a leaf",
        "  leaf1-[17-32]  rail[0-1] 800 Mb/s to spine1-2  gpu-[033-064], 2 a leaf",
    ]


def test_a_cluster_without_rails_has_no_fabric_to_show() -> None:
    """Sections that would be empty are left out."""
    text = text_of(plan_of(pools=[{"name": "prep", "machine": "sim-cpu", "count": 2}]), ())
    titles = [block.splitlines()[0] for block in text.split("\n\n")[1:]]
    assert titles == [
        "Groups",
        "Networks in 10.77.0.0/16",
        "Scheduler slurm: topology flat, preemption off, accounting off, drains wait 10 min",
        "Training by default: layout fsdp, 100 steps of 16 samples, tracker files, 3 checkpoints in each",
        "Why",
    ]


def test_a_single_leaf_has_no_trunk() -> None:
    """Table and reasons say so."""
    text = text_of(plan_of(pools=[GPU], fabric={"leaf_nodes": 4}), ())
    assert section(text, "Leaves and trunks") == [
        "  leaf     trunk of each rail  nodes",
        "  leaf1-1  none                gpu-[001-004]",
    ]


def test_own_roles_and_checks_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their source and target are listed."""
    monkeypatch.chdir(Path(__file__).parents[1] / "planning" / "own")
    extras = {"roles": [{"path": "motd"}], "checks": [{"path": "elsewhere/scratch.sh"}]}
    text = text_of(plan_of(pools=[GPU], extras=extras), ())
    assert section(text, "Roles and checks of your own") == [
        "  kind   name     path                  on",
        "  role   motd     motd                  head, gpu",
        "  check  scratch  elsewhere/scratch.sh  gpu",
    ]


def test_nodes_that_only_the_cloud_can_name() -> None:
    """A group without nodes in the plan still has their number."""
    plan = plan_of(pools=[GPU])
    groups = tuple(dataclasses.replace(group, nodes=()) for group in plan.groups)
    text = text_of(dataclasses.replace(plan, groups=groups), ())
    assert section(text, "Groups (local names their nodes)")[-1].split()[:3] == ["gpu", "4", "sim-h100"]


def test_findings_come_before_the_reasons_with_their_verdict_in_words() -> None:
    """Colour is not needed to tell a pass from a failure."""
    plan = plan_of(pools=[GPU])
    text = text_of(plan, planning.rules(plan, planning.Facts(loopback_mbps=1000)))
    assert section(text, "Rules: 1 fail, 1 pass")[:5] == [
        "  FAIL  fabric.loopback  8 simulated links x 200 Mb/s x 2 for headroom = 3200 Mb/s, but this machine",
        "                         carries 1000 Mb/s",
        "                         at: fabric.rail_rate_mbps",
        "                         hint: write fabric.rail_rate_mbps: 62 or less, or take nodes out; was the",
        "                         machine busy? `stampworks facts` measures again",
    ]
    assert text.index("\nRules: ") < text.index("\nWhy\n")


def test_a_warning_is_no_failure() -> None:
    """The worst findings come first, each with its own word."""
    findings = [
        planning.Finding("a", "pass", "fine", ""),
        planning.Finding("b", "unknown", "who knows", "ask", severity="warning"),
        planning.Finding("c", "fail", "could be better", "", severity="warning"),
        planning.Finding("d", "fail", "cannot be", ""),
    ]
    assert section(text_of(plan_of(pools=[GPU]), findings), "Rules: 1 fail, 1 warn, 1 unknown, 1 pass") == [
        "  FAIL     d  cannot be",
        "  WARN     c  could be better",
        "  UNKNOWN  b  who knows",
        "              hint: ask",
        "  PASS     a  fine",
    ]


def test_expected_rates_are_a_table_of_each_pool() -> None:
    """Rates of a pool stand together, and each derivation once, for all pools that have it."""
    lines = section(text_of(aws(), ()), "Expected performance")
    at = next(index for index, line in enumerate(lines) if line.split()[:3] == ["gpu", "max", "min"])
    assert lines[at + 4].split()[:2] == ["node.alltoall_busbw_gbs", "445.5"]
    assert lines[at + 9].split()[0] == "dev"
    because = lines[lines.index("  because") :]
    [derived] = [line for line in because if line.endswith("450 GB/s from an accelerator, 0.99 of it data")]
    number = derived.split()[0]
    users = [line.split()[0] for line in lines[: lines.index("  because")] if line.endswith(f" {number}, 4")]
    assert users == ["node.alltoall_busbw_gbs"] * 2


def test_unknown_values_of_training_stand_with_it() -> None:
    """Unknown values are shown with the training, and not among all reasons."""
    pool = {"name": "gpu", "machine": "p5", "count": 16}
    told = {"parameters": "8B", "tokens": "1T"}
    text = text_of(plan_of(cloud="aws", region="us-east-1", pools=[pool], training={"model": told}), ())
    assert any(line.startswith("    duration and interval of checkpoints") for line in section(text, "Training of"))
    assert "training.gpu" not in text.partition("\nWhy\n")[2]


def test_the_size_of_a_fabric_stands_with_its_leaves() -> None:
    """The numbers are those of `stampworks fabric`."""
    pool = {"name": "gpu", "machine": "dgx-h100", "count": 127}
    text = text_of(plan_of(cloud="hosts", network={"cidr": "10.0.0.0/8"}, pools=[pool]), ())
    words = " ".join(" ".join(section(text, "Leaves and trunks")).split())
    assert (
        "gpu: 32 leaves, 16 spines of qm9700, 1,016 + 1,024 cables from the nodes upwards, ports left: 8 of leaves, 0 "
        "of spines, bisection 203.2 Tb/s" in words
    )
    assert "fabric.switches" not in text


def test_a_cloud_as_it_is_read(request: pytest.FixtureRequest) -> None:
    """The golden file has purchases, file systems and findings of a cloud, in addition to the declaration."""
    plan, golden = aws(), DECLARED / "aws.txt"
    findings = planning.rules(plan, None, "2026-11-22")
    text = text_of(plan, findings)
    if request.config.getoption("--regenerate"):
        golden.write_text(text, encoding="utf-8")
    assert text.splitlines() == golden.read_text(encoding="utf-8").splitlines()


def test_addresses_of_pods() -> None:
    """A range of their own, or the subnet of nodes; and on Slurm nothing at all."""
    kubernetes = {"kind": "kubernetes"}
    assert section(text_of(plan_of(pools=[GPU], scheduler=kubernetes), ()), "Pods and services (a range for") == [
        "  what      range          a node takes      nodes  nodes at most",
        "  pods      10.240.0.0/12  256 for 110 pods      5           4096",
        "  services  172.20.0.0/16  -                     -              -",
    ]
    pool = {"name": "gpu", "machine": "p5", "count": 4}
    text = text_of(plan_of(cloud="aws", region="us-east-1", pools=[pool], scheduler=kubernetes), ())
    assert section(text, "Pods and services (Amazon VPC CNI with prefixes)") == [
        "  what      range          a node takes      nodes  nodes at most",
        "  pods      subnet nodes   112 for 110 pods      6            285",
        "  services  172.20.0.0/16  -                     -              -",
    ]
    assert "Pods and services" not in text_of(aws(), ())


def test_control_characters_are_shown_and_not_obeyed() -> None:
    """A plan read from a file may hold anything."""
    plan = dataclasses.replace(plan_of(pools=[GPU]), name="x\x1b[2J", reasons=(Reason("a\x07", "b\u202e"),))
    plan = dataclasses.replace(plan, fabric=dataclasses.replace(plan.fabric, kind="simulated\x1b[31m"))
    text = text_of(plan, ())
    assert all(line.isprintable() for line in text.splitlines())
    assert text.startswith("cluster x\\x1b[2J on local")


def test_scheduling_only_pool_is_marked() -> None:
    """The headline and the group say so; no addresses are shown."""
    big = {"name": "big", "machine": "sim-h100", "count": 512, "scheduling_only": True}
    text = text_of(plan_of(pools=[GPU, big]), ())
    assert text.splitlines()[0].endswith("4 x sim-h100, 512 x sim-h100 for scheduling only (simulated)")
    assert section(text, "Groups")[-1].startswith("  big (scheduling only)  big-[001-512]  sim-h100")
    assert not [line for line in section(text, "Networks") if "big" in line]
