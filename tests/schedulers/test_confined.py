"""Real Slurm accepts the settings that confine jobs, and gives a job its part of a node."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

import pytest
from stampworks.plan import Plan, Roster
from stampworks.schedulers import slurm

pytestmark = pytest.mark.cluster

Case = tuple[Plan, Roster]
PLUGINS = ("cgroup_v2", "proctrack_cgroup", "task_affinity", "task_cgroup")
SETTINGS = (
    "CgroupPlugin",
    "ConstrainCores",
    "ConstrainDevices",
    "ConstrainRAMSpace",
    "MaxRAMPercent",
    "ProctrackType",
    "SelectTypeParameters",
    "TaskPlugin",
)


@pytest.fixture(scope="module")
def files(case_of: Callable[..., Case]) -> dict[str, str]:
    """Return the files for nodes that Slurm gives to jobs before any daemon answers there."""
    pools = [{"name": "gpu", "machine": "p5", "count": 2, "count_min": 0}]
    plan, roster = case_of(cloud="aws", region="us-east-1", pools=pools)
    members = tuple(dataclasses.replace(member, address="198.51.100.2") for member in roster.members)
    made = slurm.files(plan, dataclasses.replace(roster, members=members))
    text = made["slurm.conf"].replace(plan.scheduler.queue_directory, "/var/lib/slurm/slurmctld")
    text = re.sub(r"(?m)^(ResumeProgram|SuspendProgram)=.*$", r"\1=/usr/bin/true", text)
    return {**made, "slurm.conf": text, "plugstack.conf": ""}  # the plugin is on nodes, and in no image


def test_slurm_takes_what_confines_jobs(
    slurmctld: Callable[[Mapping[str, str], str], str], files: Mapping[str, str]
) -> None:
    """slurmctld knows each setting, and the suite's packages have each plugin."""
    commands = f"scontrol show config | grep -E '^({'|'.join(SETTINGS)}) '\nls /usr/lib/*/slurm-wlm"
    said = slurmctld(files, commands).splitlines()
    assert sorted(" ".join(line.split()) for line in said if " = " in line) == [
        "CgroupPlugin = cgroup/v2",
        "ConstrainCores = yes",
        "ConstrainDevices = yes",
        "ConstrainRAMSpace = yes",
        "MaxRAMPercent = 90.0%",
        "ProctrackType = proctrack/cgroup",
        "SelectTypeParameters = CR_CORE_MEMORY",
        "TaskPlugin = task/cgroup,task/affinity",
    ]
    assert {f"{plugin}.so" for plugin in PLUGINS} <= set(said)


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("--gres=gpu:2", "cpu=48,mem=471840M,node=1,billing=48"),
        ("", "cpu=2,mem=19660M,node=1,billing=2"),
        ("--exclusive --ntasks-per-node=1 --gres=gpu:8", "cpu=192,mem=1887360M,node=1,billing=192"),
    ],
    ids=["two-accelerators", "none", "a-whole-node"],
)
def test_a_job_gets_its_part_of_a_node(
    slurmctld: Callable[[Mapping[str, str], str], str], files: Mapping[str, str], asked: str, got: str
) -> None:
    """An accelerator includes cores, and cores include memory, so that other jobs have room; no core is divided."""
    submit = f"cd /tmp; sbatch --nodes=1 {asked} --output=/dev/null --wrap=true"
    wait = "for _ in $(seq 50); do scontrol show job 1 | grep -q AllocTRES=cpu && break; sleep 0.2; done"
    said = slurmctld(files, f"{submit}\n{wait}\nscontrol show job 1")
    assert f"AllocTRES={got}\n" in said, said
