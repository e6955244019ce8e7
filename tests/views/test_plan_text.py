"""The plan as people read it. What the stacks look like is in tests/planning/golden."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from stampworks import planning, views
from stampworks.declaration import load_value
from stampworks.plan import Plan, Reason


def plan_of(**fields: Any) -> Plan:
    return planning.plan(load_value({"version": 1, "name": "test", "cloud": "local", **fields}, "test"))


GPU = {"name": "gpu", "machine": "sim-h100", "count": 4}


def section(text: str, title: str) -> list[str]:
    """The lines of a section without its title."""
    (found,) = [block for block in text.split("\n\n") if block.startswith(title)]
    return found.strip("\n").splitlines()[1:]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    """Also those of a cluster with two pools and all there is to declare."""
    pools = [GPU | {"count": 1024}, {"name": "prep", "machine": "sim-cpu", "count": 3}]
    plan = plan_of(pools=pools, fabric={"leaf_nodes": 32, "oversubscription": 4})
    text = views.plan_text(plan, planning.rules(plan, None), width=width)
    assert [line for line in text.splitlines() if len(line) > width] == []


def test_thousands_of_nodes_fit_a_screen() -> None:
    """Leaves that are alike share a line."""
    plan = plan_of(pools=[GPU | {"count": 1023}], fabric={"leaf_nodes": 2, "rail_rate_mbps": 400})
    text = views.plan_text(plan, ())
    assert len(text.splitlines()) < 70
    assert section(text, "Leaves and trunks") == [
        "  leaf           trunk of each rail  nodes",
        "  leaf1-[1-511]  rail[0-1] 800 Mb/s  gpu-[001-1022], 2 a leaf",
        "  leaf1-512      rail[0-1] 800 Mb/s  gpu-1023",
    ]


def test_a_cluster_without_rails_has_no_fabric_to_show() -> None:
    """Sections that would be empty are left out."""
    text = views.plan_text(plan_of(pools=[{"name": "prep", "machine": "sim-cpu", "count": 2}]), ())
    titles = [block.splitlines()[0] for block in text.split("\n\n")[1:]]
    assert titles == [
        "Groups",
        "Networks in 10.77.0.0/16",
        "Scheduler slurm: topology flat, preemption off, accounting off, drains wait 10 min",
        "Training by default: layout fsdp, 100 steps of 16 samples, tracker files, 3 checkpoints in each",
        "Why",
    ]


def test_a_single_leaf_has_no_trunk() -> None:
    """The table says so, and the reasons why."""
    text = views.plan_text(plan_of(pools=[GPU], fabric={"leaf_nodes": 4}), ())
    assert section(text, "Leaves and trunks") == [
        "  leaf     trunk of each rail  nodes",
        "  leaf1-1  none                gpu-[001-004]",
    ]


def test_own_roles_and_checks_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With where they come from and where they go."""
    monkeypatch.chdir(Path(__file__).parents[1] / "planning" / "own")
    extras = {"roles": [{"path": "motd"}], "checks": [{"path": "elsewhere/scratch.sh"}]}
    text = views.plan_text(plan_of(pools=[GPU], extras=extras), ())
    assert section(text, "Roles and checks of your own") == [
        "  kind   name     path                  on",
        "  role   motd     motd                  head, gpu",
        "  check  scratch  elsewhere/scratch.sh  gpu",
    ]


def test_nodes_that_only_the_cloud_can_name() -> None:
    """A group without nodes in the plan still says how many there will be."""
    plan = plan_of(pools=[GPU])
    groups = tuple(dataclasses.replace(group, nodes=()) for group in plan.groups)
    text = views.plan_text(dataclasses.replace(plan, groups=groups), ())
    assert "4, named by the cloud" in text


def test_findings_come_before_the_reasons_with_their_verdict_in_words() -> None:
    """Colour is not needed to tell a pass from a failure."""
    plan = plan_of(pools=[GPU])
    text = views.plan_text(plan, planning.rules(plan, planning.Facts(loopback_mbps=1000)))
    assert section(text, "Rules") == [
        "  FAIL fabric.loopback: 8 simulated links x 200 Mb/s x 2 for headroom = 3200 Mb/s, but this machine",
        "  carries 1000 Mb/s",
        "    hint: write fabric.rail_rate_mbps: 62 or less, or take nodes out; was the machine busy?",
        "    `stampworks facts` measures again",
    ]
    assert text.index("\nRules\n") < text.index("\nWhy\n")


def test_control_characters_are_shown_and_not_obeyed() -> None:
    """A plan read from a file may hold anything."""
    plan = dataclasses.replace(plan_of(pools=[GPU]), name="x\x1b[2J", reasons=(Reason("a\x07", "b\u202e"),))
    plan = dataclasses.replace(plan, fabric=dataclasses.replace(plan.fabric, kind="simulated\x1b[31m"))
    text = views.plan_text(plan, ())
    assert all(line.isprintable() for line in text.splitlines())
    assert text.startswith("cluster x\\x1b[2J on local")


def test_what_is_for_scheduling_only_says_so() -> None:
    """In the headline and beside the group; it has no addresses to show."""
    big = {"name": "big", "machine": "sim-h100", "count": 512, "scheduling_only": True}
    text = views.plan_text(plan_of(pools=[GPU, big]), ())
    assert text.splitlines()[0].endswith("4 x sim-h100, 512 x sim-h100 for scheduling only (simulated)")
    assert section(text, "Groups")[-1].startswith("  big (scheduling only)  big-[001-512]  sim-h100")
    assert not [line for line in section(text, "Networks") if "big" in line]
