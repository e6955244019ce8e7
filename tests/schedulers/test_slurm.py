"""Slurm's configuration from plan and roster."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stampworks.plan import Plan, Priority, Queue, Roster
from stampworks.schedulers import slurm

Case = tuple[Plan, Roster]
GOLDEN = Path(__file__).parent / "golden"


def test_golden_files_of_every_stack(stack: Case, golden: Callable[[Path, str], None]) -> None:
    """The input of slurmctld is the reviewed file; pytest --regenerate writes it again."""
    files = slurm.files(*stack)
    for name, text in files.items():
        golden(GOLDEN / stack[0].name / name, text)
    assert sorted(path.name for path in (GOLDEN / stack[0].name).iterdir()) == sorted(files)


def test_the_same_plan_gives_the_same_files(stack: Case) -> None:
    """No order depends on chance."""
    assert slurm.files(*stack) == slurm.files(*stack)


def test_accounting_files_come_with_accounting_only(case_of: Callable[..., Case]) -> None:
    """A cluster without accounting knows no database."""
    without = slurm.files(*case_of())
    assert {"slurmdbd.conf", "job_submit.lua"}.isdisjoint(without)
    assert "Accounting" not in without["slurm.conf"]


def test_nodes_carry_the_addresses_of_the_roster(case_of: Callable[..., Case]) -> None:
    """The plan lists nodes, and the roster their addresses."""
    plan, roster = case_of()
    moved = tuple(dataclasses.replace(member, address=f"192.0.2.{n}") for n, member in enumerate(roster.members))
    text = slurm.files(plan, dataclasses.replace(roster, members=moved))["slurm.conf"]
    assert "SlurmctldHost=head(192.0.2.0)" in text
    assert re.findall(r"NodeAddr=(\S+)", text) == ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]


def test_a_node_that_is_not_there_is_not_configured(case_of: Callable[..., Case]) -> None:
    """A name in slurm.conf that leads nowhere would be an error of slurmctld's."""
    plan, roster = case_of()
    files = slurm.files(plan, dataclasses.replace(roster, members=roster.members[:-1]))
    assert not [name for name, text in files.items() if "004" in text]
    assert "SwitchName=leaf1-2 Nodes=gpu-003" in files["topology.conf"]


def test_nodes_without_rails_stand_on_a_switch_too(case_of: Callable[..., Case]) -> None:
    """Under topology/tree, Slurm gives no job to a node without a switch."""
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}, {"name": "cpu", "machine": "sim-cpu", "count": 2}]
    text = slurm.files(*case_of(pools=pools, scheduler={"topology": "tree"}))["topology.conf"]
    assert "SwitchName=management Nodes=cpu-[001-002]\n" in text
    assert "management" in text.splitlines()[-1]


def test_a_tree_of_what_the_cloud_says_of_its_nodes(case_of: Callable[..., Case]) -> None:
    """The roster has the places of nodes on a cloud's fabric; a node without a place still gets jobs."""
    plan, roster = case_of(pools=[{"name": "gpu", "machine": "sim-h100", "count": 3}], scheduler={"topology": "tree"})
    plan = dataclasses.replace(plan, fabric=dataclasses.replace(plan.fabric, leaf_nodes=None, leaves=()))
    ways = {"gpu-001": ("nn-a", "nn-b"), "gpu-003": ("nn-a", "nn-c")}
    members = tuple(dataclasses.replace(one, places=ways.get(one.name)) for one in roster.members)
    text = slurm.files(plan, dataclasses.replace(roster, members=members))["topology.conf"]
    assert text.splitlines()[1:] == [
        "SwitchName=nn-b Nodes=gpu-001",
        "SwitchName=nn-c Nodes=gpu-003",
        "SwitchName=nn-a Switches=nn-b,nn-c",
        "SwitchName=management Nodes=gpu-002",
        "SwitchName=fabric Switches=nn-a,management",
    ]


def test_a_flat_cluster_has_no_topology(case_of: Callable[..., Case]) -> None:
    """Slurm calls a cluster without structure the default."""
    files = slurm.files(*case_of(scheduler={"topology": "flat"}))
    assert "TopologyPlugin=topology/default\n" in files["slurm.conf"]
    assert len(files["topology.conf"].splitlines()) == 1


def test_a_node_may_have_less_memory_than_it_is_sold_with(stack: Case) -> None:
    """Linux never has all memory of a machine: without this setting such a node would be drained."""
    [said] = re.findall(r"^SlurmctldParameters=(.*)$", slurm.files(*stack)["slurm.conf"], re.MULTILINE)
    assert "node_reg_mem_percent=90" in said.split(",")


REAL: dict[str, Any] = {"cloud": "aws", "region": "us-east-1", "pools": [{"name": "gpu", "machine": "p5", "count": 2}]}


def test_jobs_are_confined_to_what_they_got(case_of: Callable[..., Case]) -> None:
    """This applies to real machines: simulated nodes have no control groups."""
    real, local = slurm.files(*case_of(**REAL)), slurm.files(*case_of())
    assert re.findall("^(Constrain.*)=yes$", real["cgroup.conf"], re.MULTILINE) == [
        "ConstrainDevices",
        "ConstrainCores",
        "ConstrainRAMSpace",
    ]
    assert "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup,task/affinity\n" in real["slurm.conf"]
    assert local["cgroup.conf"].splitlines()[1:] == ["CgroupPlugin=disabled"]
    assert "ProctrackType=proctrack/linuxproc\n" in local["slurm.conf"]
    assert not re.search("TaskPlugin|CR_Core_Memory|DefMemPerCPU|DefCpuPerGPU", local["slurm.conf"])


def test_timeouts_spare_running_jobs(case_of: Callable[..., Case]) -> None:
    """A machine that is silent for a while is not given up either: all its jobs would restart."""
    real, local = (slurm.files(*case_of(**declared))["slurm.conf"] for declared in (REAL, {}))
    assert re.findall("^(?:SlurmdTimeout|HealthCheckInterval)=.*", real, re.MULTILINE) == [
        "SlurmdTimeout=300",
        "HealthCheckInterval=300",
    ]
    assert re.findall("^(?:SlurmdTimeout|HealthCheckInterval)=.*", local, re.MULTILINE) == [
        "SlurmdTimeout=30",
        "HealthCheckInterval=20",
    ]


def test_every_program_of_a_job_hears_that_it_has_to_go(case_of: Callable[..., Case]) -> None:
    """Simulated nodes do the same: shells wait for their programs and forward no signals."""
    assert "SignalChildrenProcesses=yes\n" in slurm.files(*case_of(**REAL))["cgroup.conf"]


@pytest.mark.parametrize("unknown", ["cores", "memory_mib"])
def test_nothing_is_divided_that_nobody_knows(case_of: Callable[..., Case], unknown: str) -> None:
    """Slurm would assume a node with a core or 1 MiB, and limit jobs to that."""
    plan, roster = case_of(**REAL)
    machine = dataclasses.replace(plan.pools[0].machine, **dict[str, Any]({unknown: None}))
    groups = tuple(dataclasses.replace(one, machine=machine) if one.role == "worker" else one for one in plan.groups)
    files = slurm.files(dataclasses.replace(plan, groups=groups), roster)
    assert re.findall("^(Constrain.*)=yes$", files["cgroup.conf"], re.MULTILINE) == ["ConstrainDevices"]
    assert "TaskPlugin=task/cgroup\n" in files["slurm.conf"]
    assert "SelectTypeParameters=CR_Core\n" in files["slurm.conf"]
    assert not re.search("DefMemPerCPU|DefCpuPerGPU", files["slurm.conf"])


def test_a_share_fits_every_node_of_a_queue(case_of: Callable[..., Case]) -> None:
    """A job may get any node of the queue: one with eight accelerators and 96 cores of two threads, or one with an
    accelerator and 16 cores."""
    pools = [*REAL["pools"], {"name": "dev", "machine": "g6-8xlarge", "count": 1}]
    conf = slurm.files(*case_of(**{**REAL, "pools": pools}))["slurm.conf"]
    assert re.findall("DefMemPerCPU=.*DefCpuPerGPU=\\S+", conf) == ["DefMemPerCPU=3686 DefCpuPerGPU=24"]


def test_a_machine_without_accelerators_has_no_gres(case_of: Callable[..., Case]) -> None:
    """A gres of count 0 would be refused."""
    files = slurm.files(*case_of(pools=[{"name": "cpu", "machine": "sim-cpu", "count": 1}]))
    assert "gpu" not in files["slurm.conf"].lower()
    assert len(files["gres.conf"].splitlines()) == 1


@pytest.mark.parametrize(
    ("preemption", "lines"),
    [
        ("off", ["PreemptType=preempt/none"]),
        ("requeue", ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]),
        ("cancel", ["PreemptType=preempt/partition_prio", "PreemptMode=CANCEL"]),
    ],
)
def test_preemption(case_of: Callable[..., Case], preemption: str, lines: list[str]) -> None:
    """Without accounting, queues preempt each other by their tier."""
    text = slurm.files(*case_of(scheduler={"preemption": preemption}))["slurm.conf"]
    assert [line for line in text.splitlines() if line.startswith("Preempt")] == lines


def test_queues_have_tiers_by_the_weight_of_their_priority(case_of: Callable[..., Case]) -> None:
    """A heavier priority has a higher tier, for any numbers; a queue without a priority has the lowest."""
    plan, roster = case_of(scheduler={"preemption": "requeue"})
    priorities = (Priority("low", 7, ()), Priority("high", 70000, ("low",)))
    queues = tuple(Queue(name, ("gpu",), name == "low", 0, name) for name in ("low", "high", ""))
    scheduler = dataclasses.replace(plan.scheduler, queues=queues, priorities=priorities)
    text = slurm.files(dataclasses.replace(plan, scheduler=scheduler), roster)["slurm.conf"]
    assert re.findall(r"PartitionName=(\S*) .*PriorityTier=(\d+)", text) == [("low", "2"), ("high", "3"), ("", "1")]


def test_only_queues_that_some_priority_preempts_can_lose_jobs(case_of: Callable[..., Case]) -> None:
    """A higher tier alone preempts no job: the declaration decides."""
    plan, roster = case_of(scheduler={"preemption": "requeue"})
    priorities = (Priority("low", 1, ()), Priority("middle", 2, ()), Priority("high", 3, ("low",)))
    queues = tuple(Queue(each.name, ("gpu",), False, 0, each.name) for each in priorities)
    scheduler = dataclasses.replace(plan.scheduler, queues=queues, priorities=priorities)
    text = slurm.files(dataclasses.replace(plan, scheduler=scheduler), roster)["slurm.conf"]
    assert re.findall(r"PartitionName=(\S+) .*PreemptMode=OFF", text) == ["middle", "high"]


def test_a_growing_pool_changes_only_its_own_lines(case_of: Callable[..., Case]) -> None:
    """An additional node is an additional line: running nodes are not touched."""
    four, five = (
        slurm.files(*case_of(pools=[{"name": "gpu", "machine": "sim-h100", "count": count}])) for count in (4, 5)
    )
    new = [line for line in five["slurm.conf"].splitlines() if line not in four["slurm.conf"].splitlines()]
    assert [line.split()[0] for line in new] == ["NodeName=gpu-005", "PartitionName=main"]


def test_nodes_for_scheduling_only_are_a_line_a_pool(case_of: Callable[..., Case]) -> None:
    """A thousand of them are machines of a cloud that are switched off, with their leaves and accelerators."""
    pools = [
        {"name": "gpu", "machine": "sim-h100", "count": 2},
        {"name": "big", "machine": "sim-h100", "count": 1000, "scheduling_only": True},
    ]
    files = slurm.files(*case_of(pools=pools, fabric={"leaf_nodes": 500}))
    conf, big = files["slurm.conf"], "big-[001-1000]"
    assert re.findall(
        rf"^NodeName={re.escape(big)} NodeAddr=127\.0\.0\.1 CPUs=16 .* Gres=gpu:h100:8 State=CLOUD$", conf, re.MULTILINE
    )
    assert f"PartitionName=scheduling-only Nodes={big} Default=NO MaxTime=INFINITE SuspendTime=30 State=UP\n" in conf
    assert "PartitionName=main Nodes=gpu-[001-002] Default=YES MaxTime=INFINITE State=UP\n" in conf
    assert "ResumeProgram=/usr/local/libexec/stampworks/scheduling-only\n" in conf
    assert files["topology.conf"].splitlines()[1:] == [
        "SwitchName=leaf1-1 Nodes=gpu-[001-002]",
        "SwitchName=leaf2-1 Nodes=big-[001-500]",
        "SwitchName=leaf2-2 Nodes=big-[501-1000]",
        "SwitchName=fabric Switches=leaf1-1,leaf2-[1-2]",
    ]
    assert f"NodeName={big} Name=gpu Type=h100 File=/dev/tty[0-7]\n" in files["gres.conf"]


def test_a_cluster_of_real_nodes_switches_nothing_off(case_of: Callable[..., Case]) -> None:
    """Without an elastic pool, Slurm's power saving is off."""
    text = slurm.files(*case_of())["slurm.conf"]
    assert not re.findall("Suspend|Resume|PrivateData|CLOUD", text)


def elastic(case: Case, count_min: int) -> Case:
    """Return a case in which a cloud starts all nodes but one."""
    plan, roster = case
    groups = tuple(dataclasses.replace(one, count_min=min(count_min, one.count)) for one in plan.groups[1:])
    return dataclasses.replace(plan, groups=(plan.groups[0], *groups)), roster


def test_elastic_nodes_come_with_the_work(case_of: Callable[..., Case]) -> None:
    """The files have them whether they run or not, and so stay the same; permanent nodes are never powered down."""
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 4}, {"name": "cpu", "machine": "sim-cpu", "count": 1}]
    plan, roster = elastic(case_of(pools=pools), 2)
    files = slurm.files(plan, roster)
    conf = files["slurm.conf"]
    assert re.findall(r"^NodeName=(\S+) NodeAddr=\S+ .*State=CLOUD$", conf, re.MULTILINE) == ["gpu-[003-004]"]
    assert "PartitionName=main Nodes=gpu-[001-004],cpu-001 Default=YES MaxTime=INFINITE SuspendTime=600" in conf
    assert "SuspendExcNodes=gpu-[001-002],cpu-001\n" in conf
    assert "ResumeProgram=/usr/local/libexec/stampworks/power/resume\n" in conf
    assert "SlurmctldParameters=enable_configless,node_reg_mem_percent=90,idle_on_node_suspend\n" in conf
    stopped = tuple(member for member in roster.members if member.name != "gpu-004")
    assert slurm.files(plan, dataclasses.replace(roster, members=stopped)) == files


def test_suspend_time_is_declared(case_of: Callable[..., Case]) -> None:
    """A queue of nodes that always run has no such time: none of them would be switched off by it."""
    pools = [{"name": "gpu", "machine": "sim-h100", "count": 2}, {"name": "cpu", "machine": "sim-cpu", "count": 1}]
    queues = [{"name": "train", "pools": ["gpu"], "default": True}, {"name": "small", "pools": ["cpu"]}]
    plan, roster = elastic(case_of(pools=pools, scheduler={"queues": queues}), 1)
    plan = dataclasses.replace(plan, scheduler=dataclasses.replace(plan.scheduler, idle_minutes=525_600))
    conf = slurm.files(plan, roster)["slurm.conf"]
    assert re.findall(r"PartitionName=(\S+) .*SuspendTime=(\S+) ", conf) == [("train", "31536000")]


def test_elastic_nodes_beside_nodes_for_scheduling_only(case_of: Callable[..., Case]) -> None:
    """The latter have timeouts of their own, so that their jobs end at once."""
    pools = [
        {"name": "gpu", "machine": "sim-h100", "count": 2},
        {"name": "big", "machine": "sim-h100", "count": 8, "scheduling_only": True},
    ]
    plan, roster = case_of(pools=pools)
    gpu = dataclasses.replace(plan.pools[0], count_min=0)
    conf = slurm.files(dataclasses.replace(plan, groups=(plan.groups[0], gpu, *plan.groups[2:])), roster)["slurm.conf"]
    assert "ResumeProgram=/usr/local/libexec/stampworks/power/resume\n" in conf
    assert "SuspendExcNodes" not in conf
    assert re.findall(r"PartitionName=(\S+) .* (SuspendTime=.*) State=UP", conf) == [
        ("main", "SuspendTime=600"),
        ("scheduling-only", "SuspendTime=30 ResumeTimeout=30 SuspendTimeout=1"),
    ]
